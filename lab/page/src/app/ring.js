// Where the participants are on the drawing, and each of them: role, term, timer, lease, votes, clock.
import {html, names} from "./html.js";
import {generation} from "./run.js";
import {playing} from "./moment.js";
import {colour, followed, letter} from "./terms.js";
import {length} from "./format.js";

export const width = 440; // of the drawing
const centre = width / 2, radius = 160;

export const sizeOf = n => (n <= 7 ? 29 : n <= 10 ? 21 : 16); // the radius of a node, by their number

// spot is where the place is; -1 is the store, in the middle.
export function spot(place, n) {
  if (place < 0) return {x: centre, y: centre};
  const a = (place / n - 0.25) * 2 * Math.PI;
  return {x: centre + radius * Math.cos(a), y: centre + radius * Math.sin(a)};
}

// height is that of the drawing, with what is written below the lowest node.
export const height = n => Math.max(...Array.from({length: n}, (_, i) => spot(i, n).y)) + sizeOf(n) + 44;

// The machines do not say how long a timer or a lease is in all. The greatest length that was seen in the run is full.
let greatest = {run: 0, of: new Map()};
function part(what, value) {
  if (greatest.run !== generation.value) greatest = {run: generation.value, of: new Map()};
  const most = Math.max(greatest.of.get(what) ?? 1, value);
  greatest.of.set(what, most);
  return value / most;
}

// Arc is a part of a circle, clockwise from the top.
const Arc = ({r, part, kind}) => {
  const round = 2 * Math.PI * r;
  return html`<circle class=${kind} r=${r} transform="rotate(-90)" stroke-dasharray=${`${round * part} ${round}`} />`;
};

// standing is the role of a node in a word.
export const standing = node => (node.unknown ? "unknown" : node.up ? node.role : "dead");

// troubles are the words for what is the matter with a node.
export function troubles(node, cut) {
  const all = [];
  if (node.unknown) return [];
  if (!node.up) return ["dead"];
  if (node.frozen) all.push(node.waiting ? `frozen, ${node.waiting} wait` : "frozen");
  if (cut) all.push(cut);
  if (node.sick) all.push("ill");
  if (node.paused) all.push("paused");
  if (node.idle) all.push("no candidate");
  const off = node.clock;
  if (Math.abs(off) >= 1e9) all.push(`clock ${off > 0 ? "+" : "−"}${length(Math.abs(off))}`);
  if (Math.abs(node.rate ?? 0) >= 20_000) all.push(`clock ${Math.abs(node.rate) / 1e4} % ${node.rate > 0 ? "fast" : "slow"}`);
  if (node.fault) all.push("halted");
  return all;
}

// cuts says of each place whether it is cut off, or partly.
export function cuts(state) {
  const n = state.nodes.length, out = Array(n).fill(0), into = Array(n).fill(0);
  for (const l of state.links) {
    if (!l.cut) continue;
    out[l.from]++;
    into[l.to]++;
  }
  return out.map((o, i) => {
    const all = n - 1, k = into[i];
    if (o + k === 0) return "";
    if (o === all && k === all) return "cut off";
    if (o === all) return "heard by none";
    if (k === all) return "hears none";
    return "partly cut";
  });
}

// sentence says all of a node in words. It begins with what is written on the drawing. While the run plays it leaves out
// what changes with every frame.
export function sentence(node, at, cut) {
  const token = followed(node, at), trouble = node.up ? troubles(node, cut) : [];
  const written = [node.id, token ? letter(token) : "", standing(node), trouble.slice(0, 2).join(" · ")].filter(Boolean).join(" ");
  return [
    written, token ? `term ${letter(token)}` : "", !node.proven ? "" : playing.value ? "lease valid" : `lease valid for ${length(node.left ?? 0)}`,
    node.votes ? `${node.votes.length} votes of others` : "", ...trouble.slice(2),
  ].filter(Boolean).join(", ");
}

export function NodeMark({node, state, cut, chosen, choose}) {
  const n = state.nodes.length, {x, y} = spot(node.place, n), r = sizeOf(n);
  const token = followed(node, state.at), k = colour(token), name = token ? letter(token) : "";
  const candidate = node.up && node.role.includes("candidate");
  const remaining = node.up && node.next > state.at ? part(`${node.place} ${node.role}`, node.next - state.at) : 0;
  const lease = node.proven && node.left > 0 ? part("lease", node.left) : 0;
  const trouble = troubles(node, cut);
  const voters = state.nodes.filter(v => !v.observer);
  const pressed = e => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    e.stopPropagation();
    choose(node, true);
  };
  return html`
    <g class=${names("node", name && `t${k}`, node.elected && "elected", candidate && "candidate", !node.up && "dead",
      node.frozen && "frozen", chosen && "chosen")} transform=${`translate(${x} ${y})`} tabindex="0" role="button"
      aria-pressed=${String(chosen)} aria-label=${sentence(node, state.at, cut)}
      onClick=${() => choose(node)} onKeyDown=${pressed}>
      <circle class="halo" r=${r + 11} />
      ${lease > 0 && html`<${Arc} r=${r + 8} part=${lease} kind="lease" />`}
      <circle class="body" r=${r} />
      ${node.frozen && html`<circle class="ice" r=${r} fill="url(#ice)" />`}
      ${remaining > 0 && html`<${Arc} r=${r + 3.5} part=${remaining} kind="timer" />`}
      <text class="id" dy=".36em" font-size=${Math.round(r * 0.62)}>${node.id}</text>${" "}
      ${!node.up && !node.unknown && html`<path class="cross" d=${`M${-r * 0.7} ${-r * 0.7}L${r * 0.7} ${r * 0.7}M${r * 0.7} ${-r * 0.7}L${-r * 0.7} ${r * 0.7}`} />`}
      ${name && html`<g class="badge" transform=${`translate(${r * 0.78} ${-r * 0.78})`}><circle r="9.5" /><text dy=".36em" font-size="12">${name}</text></g>`}${" "}
      ${node.votes && html`<g class="votes" transform=${`translate(${-(voters.length - 1) * 3.5} ${-r - 17})`}>
        ${voters.map((v, i) => html`<circle cx=${i * 7} r="2.6" class=${v.place === node.place || node.votes?.includes(v.place) ? "given" : ""} />`)}</g>`}
      <text class="role" y=${r + 22}>${standing(node)}</text>${" "}
      ${node.up && trouble.length > 0 && html`<text class="trouble" y=${r + 36}>${trouble.slice(0, 2).join(" · ")}</text>`}
    </g>`;
}
