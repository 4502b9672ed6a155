// The participants on a ring, with what flies between them; and the same as a table.
import {html, useRef} from "./html.js";
import {live, overview, unknown} from "./run.js";
import {looked, playing, selected, state, time} from "./moment.js";
import {Drawn, Table, Term} from "./panel.js";
import {Ring, cuts, standing, troubles} from "./ring.js";
import {colour, followed, letter} from "./terms.js";
import {length} from "./format.js";

// choose looks at a node; with the keyboard, the next thing is what can be done to it.
function choose(node, byKey) {
  selected.value = node.id;
  if (byKey) document.querySelector("#operate button")?.focus();
}

function Shown() {
  const s = state.value;
  if (!s) return html`<p class="empty">The world is being made.</p>`;
  return html`<${Ring} o=${overview.value} s=${s} t=${playing.value ? time.value : s.at} chosen=${looked.value?.place} choose=${choose} />`;
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

const Legend = () => html`<p class="legend">Letter and colour: the term. ${unknown("timers") ? "Arc: its lease." : "Inner arc: its timer. Outer arc: its lease. Dots above: votes."}</p>`;

export const Cluster = () => html`
  <${Drawn} id="cluster" title="Participants" table=${Nodes}>
    <${Shown} />
    <${Legend} />
  <//>`;
