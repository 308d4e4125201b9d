// Asks the server what a decision would do, shows that, and sends the decision when somebody confirms it.
const form = document.getElementById("override");
const dialog = document.getElementById("confirm");
const { app, prefix } = document.body.dataset;

// Only the fields of the chosen action are shown, checked and sent.
function choose() {
  for (const label of form.querySelectorAll("[data-for]")) {
    const used = label.dataset.for.split(" ").includes(form.elements.action.value);
    label.hidden = !used;
    label.querySelector("input").disabled = !used;
  }
}

function decision() {
  const body = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  // The field has no time zone; the page's times are UTC.
  if (body.to) body.to = Date.parse(`${body.to}Z`) * 1000;
  // Without an operator it is the whole application.
  body.action = body.action.replace(/-app$/, "");
  return body;
}

function tell(text, isRefused) {
  const told = form.querySelector("output");
  told.className = isRefused ? "refused" : "";
  told.textContent = text;
}

async function post(path, body) {
  const response = await fetch(prefix + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

async function attempt(step) {
  try {
    await step();
  } catch (error) {
    const isAway = error instanceof TypeError;
    tell(isAway ? `the server doesn't answer (${error.message})` : error.message, true);
  }
}

async function review(event) {
  event.preventDefault();
  tell("", false);
  const body = decision();
  const name = encodeURIComponent(app);
  await attempt(async () => {
    const answer = await post(`/consequence.json?app=${name}`, body);
    document.getElementById("confirm-what").textContent = answer.text;
    document.getElementById("confirm-yes").textContent = form.elements.action.selectedOptions[0].text;
    dialog.returnValue = "no";
    dialog.onclose = () => {
      if (dialog.returnValue !== "yes") return tell("nothing was changed", false);
      return attempt(async () => {
        await post(`/v1/apps/${name}/overrides`, { ...body, confirm: true });
        tell("done", false);
        form.reset();
        choose();
      });
    };
    dialog.showModal();
  });
}

// Fills the form with what is offered; who decides and why is still to be said.
function offer(event) {
  const button = event.target.closest("button[data-action]");
  if (!button) return;
  form.elements.action.value = button.dataset.action;
  choose();
  form.elements.operator.value = button.dataset.operator;
  const empty = [form.elements.name, form.elements.reason].find((field) => field.value === "");
  (empty ?? form.querySelector("button")).focus();
}

// Before the first report there is no application, and no form.
if (form) {
  form.addEventListener("change", choose);
  form.addEventListener("submit", review);
  document.getElementById("offers").addEventListener("click", offer);
  choose();
}
