// Makes an element what new HTML says, and leaves alone whatever is the same: so focus, open details, scroll
// positions and what is being read stay where they are.

// Rows have keys: without them the focus of one host's row would go to the host that takes its place.
const keyOf = (node) => node.dataset?.key;

function isSame(node, wanted) {
  return node.nodeName === wanted.nodeName && keyOf(node) === keyOf(wanted);
}

function patchNode(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  if (node.isEqualNode(wanted)) return;
  for (const { name, value } of [...wanted.attributes]) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    // Whether details are open is the reader's choice.
    const isChosen = name === "open" && node.nodeName === "DETAILS";
    if (!wanted.hasAttribute(name) && !isChosen) node.removeAttribute(name);
  }
  patchChildren(node, wanted);
}

function patchChildren(parent, fresh) {
  const keyed = new Map([...parent.children].map((child) => [keyOf(child), child]));
  const wanted = [...fresh.childNodes];
  const kept = new Set(wanted.map(keyOf));
  for (const [key, child] of keyed) {
    if (key !== undefined && !kept.has(key)) child.remove();
  }
  let at = parent.firstChild;
  const pass = () => {
    const passed = at;
    at = at.nextSibling;
    return passed;
  };
  for (const node of wanted) {
    const key = keyOf(node);
    const same = key === undefined ? at : keyed.get(key);
    keyed.delete(key);
    if (!same || !isSame(same, node)) {
      parent.insertBefore(node, at);
      continue;
    }
    // What nobody wants goes first, so that the rows behind it needn't move, which would take their focus.
    while (at && at !== same && keyOf(at) === undefined) pass().remove();
    if (at === same) pass();
    else parent.insertBefore(same, at);
    patchNode(same, node);
  }
  while (at) pass().remove();
}

export function patch(element, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const focused = document.activeElement;
  patchChildren(element, fresh.content);
  // A row that has moved has lost it.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

// Whether somebody has selected text in an element, which a change would take from under the mouse.
export function holdsSelection(element) {
  const selection = document.getSelection();
  return !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(element);
}
