// The same world on several protocols, one above the other, scrubbed together.
import {batch, computed, html, signal, useRef} from "./html.js";
import {filled} from "./run.js";
import {visit} from "./moment.js";
import {useDrawing} from "./canvas.js";
import {draw, left} from "./lanesdraw.js";
import {Needle} from "./needle.js";
import {letter} from "./terms.js";
import {clock} from "./format.js";

const worlds = signal([]); // {protocol, overview} each
const schedule = signal(null);
const now = signal(0), until = signal(1);
const range = computed(() => ({from: 0, until: until.value}));

// gather runs a schedule on protocols, one after the other, and keeps what the lanes show.
export async function gather(machines, protocols, of, tell) {
  batch(() => {
    worlds.value = [];
    schedule.value = of;
    now.value = 0;
    until.value = 1;
  });
  for (const [i, protocol] of protocols.entries()) {
    let o = await machines.call("open", {protocol, schedule: of});
    while (!o.over) {
      o = await machines.call("grow", {events: 20_000});
      tell((i + o.at / Math.max(o.until, 1)) / protocols.length);
    }
    worlds.value = [...worlds.value, {protocol, overview: filled(o)}];
    until.value = Math.max(until.value, o.at);
  }
}

// leads says who leads in an overview at a time.
function leads({lanes, leases}, t) {
  const all = lanes.filter(l => (leases ? l.proven : [l.believes]).some(s => s.from <= t && t < s.until));
  return all.length === 0 ? "nobody" : all.map(l => `${l.node}, term ${letter(l.token, {lanes})}`).join(" and ");
}

function World({w}) {
  const canvas = useRef(), t = now.value;
  useDrawing(canvas, element => draw(element, {overview: w.overview, range: range.value}));
  const names = leads(w.overview, t);
  return html`<section class="together" aria-label=${w.protocol}>
    <div class="panel-head"><h3>${w.protocol}</h3><p class=${names.includes(" and ") ? "wrong" : ""}>${names === "nobody" ? "nobody leads" : `${names} leads`}</p>
      <button type="button" onClick=${() => visit({protocol: w.protocol, schedule: schedule.value}, {time: t}).then(ok => { if (ok) scrollTo({top: 0}); })}>Open this on ${w.protocol}</button></div>
    <div class="drawing"><canvas class="lanes" ref=${canvas} aria-hidden="true"></canvas><${Needle} range=${range} at=${now} left=${left} /></div></section>`;
}

export function Together() {
  if (worlds.value.length === 0) return null;
  return html`
    <h3>The same faults, side by side</h3>
    <label class="fields">Moment<input class="scrub" type="range" min="0" max=${until.value} step=${Math.max(1, Math.floor(until.value / 2000))} value=${now.value}
      aria-valuetext=${clock(now.value, 3)} onInput=${e => { now.value = Number(e.target.value); }} /><output>${clock(now.value, 3)}</output></label>
    <div class="worlds">${worlds.value.map(w => html`<${World} key=${w.protocol} w=${w} />`)}</div>`;
}
