// Keeps the page live: asks for its parts and replaces those that have changed.
"use strict";

const PERIOD_MS = 2000;
const app = document.body.dataset.app;
const live = document.getElementById("live");
const shown = {};

async function ask() {
  const response = await fetch(app ? `/page.json?app=${encodeURIComponent(app)}` : "/page.json");
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const answer = await response.json();
  if (!app) {
    // The first application has come: its page has parts that this one hasn't.
    if (Object.keys(answer.apps).length > 0) location.reload();
    return;
  }
  for (const [id, html] of Object.entries(answer.sections)) {
    if (shown[id] !== html) document.getElementById(id).innerHTML = shown[id] = html;
  }
}

async function follow() {
  if (!document.hidden) {
    try {
      await ask();
      live.textContent = "live";
      live.className = "";
    } catch (error) {
      live.textContent = `the server doesn't answer (${error.message}); what is shown is old`;
      live.className = "old";
    }
  }
  setTimeout(follow, PERIOD_MS);
}

follow();
