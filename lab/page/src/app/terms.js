// Terms have a letter and a colour, by the order in which they begin. A letter is never left out, so that nobody needs
// to tell colours apart.
import {overview} from "./run.js";

const colours = 6; // of app.css: --term-0 to --term-5

const orders = new WeakMap(); // by overview: the place of each token

function order(o) {
  let places = orders.get(o);
  if (!places) {
    places = new Map();
    for (const {token} of o.lanes) if (!places.has(token)) places.set(token, places.size);
    orders.set(o, places);
  }
  return places;
}

// letter is A to Z, then AA. Without an overview it is that of the world that is shown.
export function letter(token, o = overview.value) {
  let n = o && order(o).get(token);
  if (n === undefined) return "";
  let text = "";
  for (n++; n > 0; n = Math.floor((n - 1) / 26)) text = String.fromCharCode(65 + (n - 1) % 26) + text;
  return text;
}

// colour is the number of a term's colour.
export const colour = (token, o = overview.value) => (o && order(o).get(token) || 0) % colours;

// followed is the token of the term in which a node of a state leads or follows, 0 if it knows no leader.
export function followed(node, at, o = overview.value) {
  if (node.elected) return node.token;
  if (!node.up || !node.leader) return 0;
  const lanes = o?.lanes ?? [];
  for (let i = lanes.length - 1; i >= 0; i--) {
    if (lanes[i].node === node.leader && lanes[i].believes.from <= at) return lanes[i].token;
  }
  return 0;
}

// palette has the colours of app.css, for what is drawn on a canvas. They are read once, and again when the scheme changes.
let colors = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors = null; });
export const palette = () => colors ??= read();

function read() {
  const style = getComputedStyle(document.body);
  const of = name => style.getPropertyValue(name).trim();
  return {
    terms: Array.from({length: colours}, (_, i) => of(`--term-${i}`)),
    ink: Array.from({length: colours}, (_, i) => of(`--term-ink-${i}`)),
    text: of("--text"), faint: of("--faint"), edge: of("--edge"), panel: of("--panel"), ground: of("--ground"), sunk: of("--sunk"),
    accent: of("--accent"), wrong: of("--wrong"), font: style.fontFamily,
  };
}
