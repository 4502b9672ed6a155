// The inspector: what a node is at the moment, and what changed in its last step.
import {effect, html, signal} from "./html.js";
import {attempt, call, generation, overview, trace, unknown} from "./run.js";
import {go, line, looked, playing, state} from "./moment.js";
import {Panel} from "./panel.js";
import {clock, count, length} from "./format.js";
import {followed, letter} from "./terms.js";
import {cuts, standing, troubles} from "./ring.js";

const last = signal(null); // the line of its last step, in whole
const whole = signal(false); // whether all of the view is shown

const steps = ["boot", "step", "receive", "reply", "fire", "command"];
let asked = "";
effect(() => {
  const node = looked.value, s = state.value;
  if (!node || !s || playing.value) return;
  const key = `${generation.value} ${node.id} ${s.event}`;
  if (key === asked) return;
  asked = key;
  // The log finds lines in which the node is the other one, too: its own step may be some lines before.
  attempt(() => call("log", {event: s.event, back: true, count: 30, node: node.id, kinds: steps, whole: true})).then(a => {
    if (a && key === asked) last.value = a.lines.findLast(l => l.node === node.id) ?? null;
  });
});

// flat turns a view into names and values.
function flat(value, prefix = "", into = new Map()) {
  for (const [k, v] of Object.entries(value ?? {})) {
    const name = prefix ? `${prefix} ${k}` : k;
    if (v && typeof v === "object") flat(v, name, into);
    else into.set(name.replaceAll("_", " "), instants.has(k) ? instant(v) : String(v));
  }
  return into;
}

const instants = new Set(["lease_end", "not_before", "boot", "mono"]); // by a node's own clock

const instant = v => (Math.abs(v) > 9e18 ? (v > 0 ? "never" : "not set") : clock(v));

function Change({node}) {
  const l = last.value;
  if (playing.value || l?.node !== node) return null;
  const was = flat(l.was), is = flat(l.view);
  const changed = [...new Set([...was.keys(), ...is.keys()])].filter(k => was.get(k) !== is.get(k));
  return html`<h3>Its last step</h3>
    <p><button type="button" class="link" onClick=${() => { line.value = l.number; go({event: l.event}); }}>${clock(l.at)}</button> ${l.says}</p>
    ${changed.length === 0 ? html`<p class="hint">Nothing that others can see changed.</p>` : html`<table class="changes">
      <caption class="unseen">What changed</caption>
      <thead><tr><th scope="col">What changed</th><th scope="col">was</th><th scope="col">is</th></tr></thead>
      <tbody>${changed.map(k => html`<tr><th scope="row">${k}</th><td>${was.get(k) ?? "–"}</td><td>${is.get(k) ?? "–"}</td></tr>`)}</tbody></table>`}`;
}

// clockWords says how a clock goes, and how far it has come from what it would show if it had always run right. A trace
// has at most how far.
function clockWords(off, rate) {
  const far = off === 0 ? "" : `${length(Math.abs(off))} ${off > 0 ? "ahead" : "behind"}`;
  if (trace.value) return far;
  const pace = rate === 0 ? "runs right" : `runs ${Math.abs(rate) / 1e4} % ${rate > 0 ? "fast" : "slow"}`;
  return far ? `${pace}, ${far}` : pace;
}

export function Inspector() {
  const n = looked.value, s = state.value;
  if (!n || !s) return html`<${Panel} id="node" title="Node" />`;
  const token = followed(n, s.at);
  const facts = !n.up ? [["Role", standing(n)]] : [
    ["Role", n.role],
    ["Term", token ? `${letter(token)}, token ${count(token)}` : n.leader && unknown("nodes") ? "not known" : "none"],
    ["Tenure", n.term ? `number ${count(n.term)}` : "none yet"],
    ["Leader", n.leader ?? "not known"],
    ["Lease", n.proven ? `valid, ${length(n.left ?? 0)} left by its own clock` : !overview.value.leases ? "this protocol has none" : n.elected ? "not valid" : "none"],
    ["Timer", n.next > s.at ? `in ${length(n.next - s.at)}` : unknown("timers") ? "" : "none"],
    ["Clock", clockWords(n.clock, n.rate ?? 0)],
    ["Votes", n.votes ? n.votes.map(v => s.nodes[v]?.id).join(", ") : ""],
    ["Remarks", [...troubles(n, cuts(s)[n.place]), n.fault].filter(Boolean).join(", ")],
  ];
  return html`
    <${Panel} id="node" title=${`Node ${n.id}`}>
      <dl class="facts">${facts.filter(([, v]) => v).map(([k, v]) => html`<div><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>
      <${Change} node=${n.id} />
      <details onToggle=${e => { whole.value = e.target.open; }}><summary>All that others can see of it</summary>
        ${whole.value && html`<table><caption class="unseen">View</caption><tbody>${[...flat(n.view)].map(([k, v]) => html`<tr><th scope="row">${k}</th><td>${v}</td></tr>`)}</tbody></table>`}</details>
    <//>`;
}
