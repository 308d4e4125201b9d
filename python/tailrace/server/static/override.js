// Sends what an operator decides, with name and reason, and says what the server answers.
"use strict";

const form = document.getElementById("override");

// Only the fields of the chosen action are shown, checked and sent.
function choose() {
  for (const label of form.querySelectorAll("[data-for]")) {
    const used = label.dataset.for.split(" ").includes(form.action.value);
    label.hidden = !used;
    label.querySelector("input").disabled = !used;
  }
}

// What was refused for want of a confirmation: sent once more, it is one.
let unconfirmed = "";

async function send(event) {
  event.preventDefault();
  const body = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  // The field has no time zone; the page's times are UTC.
  if (body.to) body.to = Date.parse(`${body.to}Z`) * 1000;
  const said = JSON.stringify(body);
  body.confirm = said === unconfirmed;
  const told = form.querySelector("output");
  try {
    const response = await fetch(`/v1/apps/${encodeURIComponent(document.body.dataset.app)}/overrides`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    told.className = response.ok ? "" : "refused";
    told.textContent = response.ok ? "done" : answer.detail;
    unconfirmed = response.status === 409 && answer.detail.endsWith("with confirm") ? said : "";
    if (unconfirmed) told.textContent += ": press the button again";
    if (response.ok) {
      form.reset();
      choose();
    }
  } catch (error) {
    told.className = "refused";
    told.textContent = `the server doesn't answer (${error.message})`;
  }
}

// Before the first report there is no application, and no form.
if (form) {
  form.addEventListener("change", choose);
  form.addEventListener("submit", send);
  choose();
}
