// The participants on a ring, with what flies between them; and the same as a table.
import {html, useRef} from "./html.js";
import {live, overview, unknown} from "./run.js";
import {looked, playing, selected, state} from "./moment.js";
import {Drawn, Table, Term} from "./panel.js";
import {Flying} from "./flying.js";
import {NodeMark, cuts, height, spot, standing, troubles, width} from "./ring.js";
import {colour, followed, letter} from "./terms.js";
import {length} from "./format.js";

// choose looks at a node; with the keyboard, the next thing is what can be done to it.
function choose(node, byKey) {
  selected.value = node.id;
  if (byKey) document.querySelector("#operate button")?.focus();
}

// Strands are the links that are not as they should be; and all of them, faintly, where there are few.
function Strands({s}) {
  const n = s.nodes.length, all = [];
  if (n <= 7 && !overview.value.store && !unknown("links")) {
    for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) all.push({from: a, to: b, kind: "whole"});
  }
  for (const l of s.links) all.push({...l, kind: l.cut ? "cut" : l.clogged ? "clogged" : "slow"});
  return html`<g class="strands" aria-hidden="true">${all.map(l => {
    const a = spot(l.from, n), b = spot(l.to, n), side = l.kind === "whole" ? 0 : 4;
    const dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy);
    const move = p => ({x: p.x - dy / d * side, y: p.y + dx / d * side}), p = move(a), q = move(b);
    const third = {x: p.x + (q.x - p.x) * 0.36, y: p.y + (q.y - p.y) * 0.36};
    return html`<path class=${l.kind} d=${`M${p.x} ${p.y}L${q.x} ${q.y}`} />
      ${l.kind === "cut" && html`<path class="cut-mark" d=${`M${third.x - 3.5} ${third.y - 3.5}l7 7m0 -7l-7 7`} />`}`;
  })}</g>`;
}

function Ring() {
  const s = state.value;
  if (!s) return html`<p class="empty">The world is being made.</p>`;
  const cut = cuts(s), middle = spot(-1);
  return html`
    <svg class="ring" viewBox=${`0 0 ${width} ${height(s.nodes.length)}`} role="group" aria-label="Participants">
      <defs>
        <pattern id="ice" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" class="ice-line" /></pattern>
        <marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L6 3L0 6z" class="tip" /></marker>
      </defs>
      <${Strands} s=${s} />
      ${overview.value.store && html`<g class="store" transform=${`translate(${middle.x} ${middle.y})`}>
        <rect x="-32" y="-20" width="64" height="40" rx="8" /><text dy=".36em">store</text></g>`}
      ${s.nodes.map(node => html`<${NodeMark} key=${node.place} node=${node} state=${s} cut=${cut[node.place]}
        chosen=${looked.value?.place === node.place} choose=${choose} />`)}
      <${Flying} />
    </svg>`;
}

// While the run plays, and nobody can see the table, it stays as it is; what is live always plays.
function Nodes({shown}) {
  const last = useRef(null);
  if (shown || !playing.value || live.value) last.current = html`<${Rows} s=${state.value} />`;
  return last.current;
}

function Rows({s}) {
  if (!s) return null;
  const cut = cuts(s);
  const head = ["Node", "Role", "Term", "Leader", "Lease left", "Timer", "Votes", "Remarks", "Choose"];
  return html`<${Table} caption="Participants at this moment" head=${head} rows=${s.nodes.map(n => {
    const token = followed(n, s.at);
    return [
      n.id, standing(n), html`<${Term} letter=${letter(token)} colour=${colour(token)} />`, n.leader ?? "", n.proven ? length(n.left ?? 0) : "",
      n.next > s.at ? length(n.next - s.at) : "", n.votes ? n.votes.map(v => s.nodes[v]?.id).join(", ") : "", troubles(n, cut[n.place]).join(", "),
      html`<button type="button" aria-pressed=${String(looked.value?.place === n.place)} onClick=${() => choose(n)}>Choose ${n.id}</button>`,
    ];
  })} />`;
}

const Legend = () => html`<p class="legend">Letter and colour: the term. Inner arc: its timer. Outer arc: its lease. Dots above: votes.</p>`;

export const Cluster = () => html`
  <${Drawn} id="cluster" title="Participants" table=${Nodes}>
    <${Ring} />
    <${Legend} />
  <//>`;
