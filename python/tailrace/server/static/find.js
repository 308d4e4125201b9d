// Searches and turns pages without loading the page anew. What is chosen goes into the page's address.
import { refresh } from "./page.js";

const TYPING_MS = 300;

function show(chosen) {
  for (const [name, value] of [...chosen]) {
    if (value === "") chosen.delete(name);
  }
  history.replaceState(null, "", `?${chosen}`);
  refresh();
}

function search(form, page) {
  const chosen = new URLSearchParams(location.search);
  for (const [name, value] of new FormData(form)) chosen.set(name, value);
  // Another search begins with its first page.
  chosen.delete(page);
  show(chosen);
}

for (const [id, page] of [
  ["find-hosts", "page"],
  ["find-apps", "apps"],
]) {
  const form = document.getElementById(id);
  // Before the first report there is nothing to find.
  if (!form) continue;
  let typing = 0;
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, TYPING_MS, form, page);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    search(form, page);
  });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-chosen]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(new URLSearchParams(new URL(link.href).search));
});
