// Keeps the page live: asks for its parts, and changes those that have changed.
import { holdsSelection, patch } from "./patch.js";

const PERIOD_MS = 2000;
const { app, prefix } = document.body.dataset;
const live = document.getElementById("live");
const shown = {};
let asked = 0;
let waiting = 0;

// A screen reader reads out what is set, so nothing is set twice.
function say(text, isOld) {
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("old", isOld);
}

// A proxy in between answers with pages of its own.
async function reasonOf(response) {
  try {
    return (await response.json()).detail;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

async function ask() {
  asked += 1;
  const mine = asked;
  // What is searched for and which page is shown stand in the page's address.
  const chosen = new URLSearchParams(location.search);
  if (app) chosen.set("app", app);
  const response = await fetch(`${prefix}/page.json?${chosen}`);
  if (!response.ok) throw new Error(await reasonOf(response));
  const answer = await response.json();
  // Another search was begun while this one was answered.
  if (mine !== asked) return;
  if (!app) {
    // The first application has come: its page has parts that this one hasn't.
    if (Object.keys(answer.apps).length > 0) location.reload();
    return;
  }
  let isSelected = false;
  for (const [id, html] of Object.entries(answer.sections)) {
    const element = document.getElementById(id);
    if (shown[id] === html) continue;
    if (holdsSelection(element)) {
      isSelected = true;
      continue;
    }
    patch(element, html);
    shown[id] = html;
  }
  showLocalTimes();
  say(isSelected ? "live, but for the parts with selected text" : "live", false);
}

// The server writes UTC. Where the reader's clock shows something else, the chart has that, too.
function showLocalTimes() {
  const isLocal = new Date().getTimezoneOffset() !== 0;
  document.body.classList.toggle("has-local-time", isLocal);
  const second = document.querySelector("svg[data-seconds]") ? "2-digit" : undefined;
  for (const element of isLocal ? document.querySelectorAll("[data-at]") : []) {
    const at = new Date(Number(element.dataset.at));
    element.textContent = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second });
  }
}

export async function refresh() {
  clearTimeout(waiting);
  if (!document.hidden) {
    try {
      await ask();
      if (!app) say("live", false);
    } catch (error) {
      const isAway = error instanceof TypeError;
      say(`${isAway ? "the server doesn't answer" : "there is no answer"} (${error.message}); what is shown is old`, true);
    }
  }
  clearTimeout(waiting);
  waiting = setTimeout(refresh, PERIOD_MS);
}

refresh();
