// The ring: the participants of a world at a moment, with what flies between them.
import {html, names} from "./html.js";
import {unknown} from "./run.js";
import {playing} from "./moment.js";
import {Flying} from "./flying.js";
import {colour, followed, letter} from "./terms.js";
import {length} from "./format.js";

// place is where n participants are on a drawing, large or small: spot is the middle of one, and -1 is the store, in the
// middle of all; r is the radius of a node.
export function place(n, small) {
  const width = small ? 264 : 440, centre = width / 2, radius = small ? 88 : 160;
  const r = small ? (n <= 7 ? 21 : n <= 10 ? 15 : 11) : n <= 7 ? 29 : n <= 10 ? 21 : 16;
  const spot = i => {
    const a = (i / n - 0.25) * 2 * Math.PI;
    return i < 0 ? {x: centre, y: centre} : {x: centre + radius * Math.cos(a), y: centre + radius * Math.sin(a)};
  };
  const lowest = Math.max(...Array.from({length: n}, (_, i) => spot(i).y));
  return {width, height: lowest + r + 44, r, spot};
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
function sentence(node, at, cut, o) {
  const token = followed(node, at, o), trouble = node.up ? troubles(node, cut) : [];
  const written = [node.id, token ? letter(token, o) : "", standing(node), trouble.slice(0, 2).join(" · ")].filter(Boolean).join(" ");
  return [
    written, token ? `term ${letter(token, o)}` : "", !node.proven ? "" : playing.value ? "lease valid" : `lease valid for ${length(node.left ?? 0)}`,
    node.votes ? `${node.votes.length} votes of others` : "", ...trouble.slice(2),
  ].filter(Boolean).join(", ");
}

const ends = 1 / 200; // less of an arc cannot be seen

function NodeMark({node, o, state, at, cut, small, chosen, choose}) {
  const {x, y} = at.spot(node.place), r = at.r;
  const token = followed(node, state.at, o), k = colour(token, o), name = token ? letter(token, o) : "";
  const candidate = node.up && node.role.includes("candidate");
  const remaining = node.up && node.timer > 0 ? Math.min(1, (node.next - state.at) / node.timer) : 0;
  const lease = node.proven && node.lease > 0 ? Math.min(1, (node.left ?? 0) / node.lease) : 0;
  const trouble = troubles(node, small && cut === "partly cut" ? "" : cut); // the links show it, too
  const voters = state.nodes.filter(v => !v.observer);
  const pressed = e => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    e.stopPropagation();
    choose(node, true);
  };
  const acts = choose && {
    tabindex: "0", role: "button", "aria-pressed": String(chosen), "aria-label": sentence(node, state.at, cut, o),
    onClick: () => choose(node), onKeyDown: pressed,
  };
  return html`
    <g class=${names("node", name && `t${k}`, node.elected && "elected", candidate && "candidate", !node.up && "dead",
      node.frozen && "frozen", chosen && "chosen")} transform=${`translate(${x} ${y})`} ...${acts}>
      <circle class="halo" r=${r + 11} />
      ${lease > ends && html`<${Arc} r=${r + 8} part=${lease} kind="lease" />`}
      <circle class="body" r=${r} />
      ${node.frozen && html`<circle class="ice" r=${r} fill="url(#ice)" />`}
      ${remaining > ends && html`<${Arc} r=${r + 3.5} part=${remaining} kind="timer" />`}
      <text class="id" dy=".36em" font-size=${Math.round(r * 0.62)}>${node.id}</text>${" "}
      ${!node.up && !node.unknown && html`<path class="cross" d=${`M${-r * 0.7} ${-r * 0.7}L${r * 0.7} ${r * 0.7}M${r * 0.7} ${-r * 0.7}L${-r * 0.7} ${r * 0.7}`} />`}
      ${name && html`<g class="badge" transform=${`translate(${r * 0.78} ${-r * 0.78})`}><circle r="9.5" /><text dy=".36em" font-size="12">${name}</text></g>`}${" "}
      ${node.votes && html`<g class="votes" transform=${`translate(${-(voters.length - 1) * 3.5} ${-r - 17})`}>
        ${voters.map((v, i) => html`<circle cx=${i * 7} r="2.6" class=${v.place === node.place || node.votes?.includes(v.place) ? "given" : ""} />`)}</g>`}
      <text class="role" y=${r + 22}>${standing(node)}</text>${" "}
      ${node.up && trouble.length > 0 && html`<text class="trouble" y=${r + 36}>${trouble.slice(0, 2).join(" · ")}</text>`}
    </g>`;
}

// Strands are the links that are not as they should be; and all of them, faintly, where there are few.
function Strands({o, s, at}) {
  const n = s.nodes.length, all = [];
  if (n <= 7 && !o.store && !unknown("links", o)) {
    for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) all.push({from: a, to: b, kind: "whole"});
  }
  for (const l of s.links) all.push({...l, kind: l.cut ? "cut" : l.clogged ? "clogged" : "slow"});
  return html`<g class="strands" aria-hidden="true">${all.map(l => {
    const a = at.spot(l.from), b = at.spot(l.to), side = l.kind === "whole" ? 0 : 4;
    const dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy);
    const move = p => ({x: p.x - dy / d * side, y: p.y + dx / d * side}), p = move(a), q = move(b);
    const third = {x: p.x + (q.x - p.x) * 0.36, y: p.y + (q.y - p.y) * 0.36};
    return html`<path class=${l.kind} d=${`M${p.x} ${p.y}L${q.x} ${q.y}`} />
      ${l.kind === "cut" && html`<path class="cut-mark" d=${`M${third.x - 3.5} ${third.y - 3.5}l7 7m0 -7l-7 7`} />`}`;
  })}</g>`;
}

// Marks are what drawings refer to. They stand once on the page, where they are not hidden.
export const Marks = () => html`<svg class="marks" aria-hidden="true"><defs>
  <pattern id="ice" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" class="ice-line" /></pattern>
  <marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L6 3L0 6z" class="tip" /></marker>
</defs></svg>`;

// Ring draws the state s of the run o, with the messages as they are at time t. Nodes are buttons where they can be
// chosen; else the drawing is a picture with a text.
export function Ring({o, s, t, small, chosen, choose}) {
  const cut = cuts(s), at = place(s.nodes.length, small), middle = at.spot(-1);
  const role = choose ? {role: "group", "aria-label": "Participants"}
    : {role: "img", "aria-label": s.nodes.map(n => sentence(n, s.at, cut[n.place], o)).join("; ")};
  return html`
    <svg class=${names("ring", small && "small", s.nodes.length > 10 && "crowded")} viewBox=${`0 0 ${at.width} ${at.height}`} ...${role}>
      <${Strands} o=${o} s=${s} at=${at} />
      ${o.store && html`<g class="store" transform=${`translate(${middle.x} ${middle.y})`}>
        <rect x="-32" y="-20" width="64" height="40" rx="8" /><text dy=".36em">store</text></g>`}
      ${s.nodes.map(node => html`<${NodeMark} key=${node.place} node=${node} o=${o} state=${s} at=${at} cut=${cut[node.place]} small=${small}
        chosen=${chosen === node.place} choose=${choose} />`)}
      <${Flying} s=${s} t=${t} at=${at} small=${small} />
    </svg>`;
}
