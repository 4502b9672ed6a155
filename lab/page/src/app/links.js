// The links: a matrix of directed links, to be cut, delayed, and made to lose messages.
import {computed, html, names, signal} from "./html.js";
import {overview, unknown, world} from "./run.js";
import {hand, over, state, undo} from "./moment.js";
import {Panel} from "./panel.js";
import {length} from "./format.js";

const s = 1e9;
const ways = {
  cut: {name: "Cut it", op: {kind: "half-open"}},
  delay: {name: "Delay by 200 ms", op: {kind: "delay", by: 0.2 * s}},
  hold: {name: "Delay by 1.5 s", op: {kind: "delay", by: 1.5 * s}},
  lose: {name: "Lose half", op: {kind: "loss", value: 0.5}},
};
const way = signal("cut"), seconds = signal(10);

// look is the sign of a link, and what it means.
function look(l) {
  if (!l) return ["·", "whole"];
  if (l.cut) return ["✕", "cut"];
  if (l.clogged) return ["▮", "holds messages back"];
  if (l.slow) return ["◷", `${length(l.slow)} slower`];
  return ["½", `loses ${Math.round(l.loss * 100)} %`];
}

// mine is the visitor's operation on a link that goes on, -1 if there is none.
const mine = (from, to) => (world.value.hands ?? []).findIndex(op =>
  op.node === from && op.peer === to && op.at <= state.value.at && (!op.for || op.at + op.for > state.value.at));

function press(from, to) {
  const i = mine(from, to);
  if (i >= 0) return undo(i);
  return hand({...ways[way.value].op, node: from, peer: to, for: seconds.value * s});
}

// broken is what the matrix shows, as a text: it is drawn anew when that changes, and not with every state.
const broken = computed(() => JSON.stringify((state.value?.links ?? []).map(l => ({...l, mine: mine(...[l.from, l.to].map(i => overview.value.nodes[i])) >= 0}))));

export function Links() {
  const o = overview.value;
  if (!o) return null;
  if (!o.world) return html`<${Panel} id="links" title="Links"><p class="hint">${unknown("links")}</p><//>`;
  const by = new Map(JSON.parse(broken.value).map(l => [`${l.from} ${l.to}`, l])), ended = over.value;
  const tools = html`
    <label><span class="unseen">What is done to a link</span><select value=${way.value} onChange=${e => { way.value = e.target.value; }}>
      ${Object.entries(ways).map(([k, {name}]) => html`<option value=${k}>${name}</option>`)}</select></label>
    <label>For<select value=${String(seconds.value)} onChange=${e => { seconds.value = Number(e.target.value); }}>
      ${[1, 2, 5, 10, 30].map(n => html`<option value=${String(n)}>${n} s</option>`)}</select></label>`;
  return html`
    <${Panel} id="links" title="Links" tools=${tools}>
      <div class="scroll"><table class="matrix">
        <caption class="unseen">Links, from the node of the row to that of the column</caption>
        <thead><tr><th scope="col">from ↓ to →</th>${o.nodes.map(id => html`<th scope="col">${id}</th>`)}</tr></thead>
        <tbody>${o.nodes.map((from, i) => html`<tr><th scope="row">${from}</th>${o.nodes.map((to, j) => {
          if (i === j) return html`<td></td>`;
          const l = by.get(`${i} ${j}`), [mark, word] = look(l), own = l?.mine;
          return html`<td><button type="button" class=${names(mark !== "·" && "broken")} disabled=${ended} title=${`${from} → ${to}: ${word}${own ? "; press to heal" : ""}`}
            aria-label=${`${from} to ${to}: ${word}. ${own ? "Heal" : ways[way.value].name}`} onClick=${() => press(from, to)}>${mark}</button></td>`;
        })}</tr>`)}</tbody></table></div>
      <p class="hint">Each is one direction. Press to break it; press again to heal what you broke.</p>
    <//>`;
}
