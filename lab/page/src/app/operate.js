// What a visitor can do to a node: faults, and what an operator does. All of it is also for the keyboard.
import {html, signal} from "./html.js";
import {catalogue, overview, trace, world} from "./run.js";
import {hand, leaderId, lookedId, over, selected, undo} from "./moment.js";
import {Panel} from "./panel.js";
import {clock} from "./format.js";
import {say} from "./announce.js";
import {permits} from "./challenge.js";

const seconds = signal(5); // how long a fault lasts; 0 is until the faults end
const told = signal(null); // the kind of the button that is pointed at

const s = 1e9;

// half is a smaller half of the participants, with the node in it.
function half(node) {
  const all = overview.value.nodes, k = all.indexOf(node);
  const most = Math.max(1, Math.floor((all.length - 1) / 2));
  return Array.from({length: most}, (_, i) => all[(k + i) % all.length]);
}

// acts are the operations, in groups. What lasts takes the chosen length.
const acts = [
  ["Process", [
    {name: "Kill", kind: "kill", lasts: true},
    {name: "Pause", kind: "pause", lasts: true},
    {name: "Suspend", kind: "suspend", lasts: true},
    {name: "Power loss", kind: "power-loss", lasts: true},
  ]],
  ["Network", [
    {name: "Cut off", kind: "isolate", lasts: true},
    {name: "Cut off with a minority", kind: "halves", lasts: true, op: node => ({node: undefined, group: half(node)}), many: true},
    {name: "Heard by none", kind: "one-way", lasts: true},
    {name: "Hears none", kind: "one-way", lasts: true, op: () => ({value: 1})},
  ]],
  ["Clock, disk", [
    {name: "Clock 90 % slow", kind: "clock-rate", op: () => ({value: -900_000})},
    {name: "Clock + 5 s", kind: "clock-step", op: () => ({by: 5 * s})},
    {name: "Clock − 5 s", kind: "clock-step", op: () => ({by: -5 * s})},
    {name: "Slow disk", kind: "slow-sync", lasts: true, op: () => ({by: 0.3 * s})},
  ]],
  ["Operator", [
    {name: "Resign", kind: "resign"},
    {name: "Transfer", kind: "transfer"},
    {name: "Make ill", kind: "sicken", lasts: true},
    {name: "Withdraw", kind: "withdraw", lasts: true},
  ]],
  ["Store", [
    {name: "Cannot reach it", kind: "store-down", lasts: true},
    {name: "Is down", kind: "store-down", lasts: true, op: () => ({node: undefined})},
    {name: "Changes its leader", kind: "store-elect", op: () => ({node: undefined})},
  ], true],
];

async function act(a, node) {
  const op = {kind: a.kind, node, ...a.op?.(node)};
  if (a.lasts && seconds.value) op.for = seconds.value * s;
  if (await hand(op)) say(`Done: ${a.name}, ${node}.`);
}

const says = kind => catalogue.value?.faults.find(f => f.kind === kind)?.says ?? "";

// Chosen is the choice of the node that is looked at.
export const Chosen = () => html`
  <label>Node
    <select value=${selected.value} onChange=${e => { selected.value = e.target.value; }}>
      <option value="">${leaderId.value ? `the leader (${leaderId.value})` : `nobody leads: ${overview.value?.nodes[0] ?? ""}`}</option>
      ${overview.value?.nodes.map(id => html`<option value=${id}>${id}</option>`)}
    </select></label>`;

function Target() {
  return html`
    <${Chosen} />
    <label>For
      <select value=${String(seconds.value)} onChange=${e => { seconds.value = Number(e.target.value); }}>
        ${[1, 2, 5, 10, 30].map(n => html`<option value=${String(n)}>${n} s</option>`)}
        <option value="0">to the end</option>
      </select></label>`;
}

// Acts are buttons in groups: [name, [{name, says, act, off, idle}]]. One that is off cannot be pressed; one that is idle
// has no effect now, and says why. point is told which of them is pointed at.
export const Acts = ({groups, point}) => html`
  <div class="acts">${groups.map(([group, all]) => html`
    <div role="group" aria-label=${group}><h3>${group}</h3>
      ${all.map(a => html`<button type="button" key=${a.name} title=${a.says} disabled=${a.off} aria-disabled=${a.idle ? "true" : undefined}
        onFocus=${() => point(a)} onPointerEnter=${() => point(a)} onClick=${a.act}>${a.name}</button>`)}
    </div>`)}</div>`;

export function Operate() {
  const node = lookedId.value, ended = over.value;
  if (trace.value) return null;
  return html`
    <${Panel} id="operate" title="Break it" tools=${html`<${Target} />`}>
      <${Acts} point=${a => { told.value = a.kind; }} groups=${acts.filter(([, , store]) => !store || overview.value?.store).map(([group, all]) => [group,
        all.map(a => ({...a, says: says(a.kind), off: !node || ended || !permits(a.kind), act: () => act(a, node)}))])} />
      <p class="hint">${ended ? "The run is over; go back to break it." : told.value ? `${told.value}: ${says(told.value)}` : leaderId.value
        ? "It happens now, to the chosen node. What comes later is another future." : "Press Play until somebody leads; then break it."}</p>
      <${Hands} />
    <//>`;
}

// Hands are what the visitor has done, each with a way back.
function Hands() {
  const all = world.value?.hands ?? [];
  if (all.length === 0) return null;
  return html`<h3>Done by you</h3><ul class="hands">${all.map((op, i) => html`
    <li><span>${clock(op.at, 3)} · ${op.kind} ${op.group?.join(", ") ?? op.node ?? ""}${op.peer ? ` → ${op.peer}` : ""}${op.for ? ` for ${op.for / s} s` : ""}</span>
      <button type="button" aria-label=${`Undo ${op.kind} ${op.node ?? ""}`} onClick=${() => undo(i)}>Undo</button></li>`)}</ul>`;
}
