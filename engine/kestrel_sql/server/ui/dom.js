// Everything on the page is made of DOM nodes and text, never of markup in strings.
export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

// What the page counts itself; numbers of rows are shown by cells.js.
export const count = (value) => Number(value).toLocaleString("en");
export const plural = (value, what) => `${count(value)} ${what}${value === 1 ? "" : "s"}`;

// Calls `does` on a click, on Enter and on the space bar.
export function pressed(node, does) {
  node.addEventListener("click", does);
  node.addEventListener("keydown", (event) => {
    if (event.target !== node || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    does(event);
  });
  return node;
}
