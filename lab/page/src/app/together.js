// The same faults on several protocols, one beside the other: their rings and lanes at one moment, moved together.
import {batch, computed, effect, html, signal, useRef} from "./html.js";
import {attempt, filled} from "./run.js";
import {still, visit} from "./moment.js";
import {useDrawing} from "./canvas.js";
import {draw, left} from "./lanesdraw.js";
import {Needle} from "./needle.js";
import {Ring} from "./ring.js";
import {letter} from "./terms.js";
import {clock} from "./format.js";

const worlds = signal([]); // {protocol, overview} each
const states = signal([]); // those of the worlds, in the same order, at a moment close to now
const schedule = signal(null);
const now = signal(0), until = signal(1), playing = signal(false);
const range = computed(() => ({from: 0, until: until.value}));
let keeper = null; // the machines that keep the worlds

// gather runs a schedule on protocols, one after the other, and keeps them in those machines, which it closes when they
// are needed no more.
export async function gather(machines, protocols, of, tell) {
  keeper?.close();
  keeper = machines;
  batch(() => {
    worlds.value = [];
    states.value = [];
    schedule.value = of;
    now.value = 0;
    until.value = 1;
    playing.value = false;
  });
  for (const [i, protocol] of protocols.entries()) {
    if (machines !== keeper) return;
    let o = await machines.call("open", {protocol, schedule: of});
    while (!o.over) {
      o = await machines.call("grow", {events: 20_000});
      tell((i + o.at / Math.max(o.until, 1)) / protocols.length);
    }
    await machines.call("keep");
    if (machines !== keeper) return;
    worlds.value = [...worlds.value, {protocol, overview: filled(o)}];
    until.value = Math.max(until.value, o.at);
  }
}

// forget gives the worlds up.
export function forget() {
  keeper?.close();
  keeper = null;
  playing.value = false;
  worlds.value = [];
}

// The states follow the moment; the latest one wins.
let asking = false;
effect(() => {
  if (worlds.value.length > 0 && now.value >= 0 && !asking) ask();
});

async function ask() {
  asking = true;
  let at = -1, of = 0;
  while (keeper && (at !== now.value || of !== worlds.value.length)) {
    const machines = keeper;
    at = now.value;
    of = worlds.value.length;
    const all = await attempt(() => machines.call("states", {time: Math.floor(at)}));
    if (machines === keeper && all) states.value = all;
    if (!all) break;
  }
  asking = false;
}

const whole = 20e3; // how long playing takes, from the beginning to the end, in milliseconds

function play() {
  playing.value = !playing.value;
  if (!playing.value) return;
  if (now.value >= until.value) now.value = 0;
  const frame = (t, before) => {
    if (!playing.value) return;
    now.value = Math.min(until.value, now.value + Math.min(t - before, 100) / whole * until.value);
    if (now.value >= until.value) playing.value = false;
    else requestAnimationFrame(next => frame(next, t));
  };
  requestAnimationFrame(first => frame(first, first));
}

// leads says who leads in an overview at a time.
function leads({lanes, leases}, t) {
  const all = lanes.filter(l => (leases ? l.proven : [l.believes]).some(s => s.from <= t && t < s.until));
  return all.length === 0 ? "nobody" : all.map(l => `${l.node}, term ${letter(l.token, {lanes})}`).join(" and ");
}

function World({w, s}) {
  const canvas = useRef(), t = now.value;
  useDrawing(canvas, element => draw(element, {overview: w.overview, range: range.value}));
  const names = leads(w.overview, t);
  return html`<section class="together" aria-label=${w.protocol}>
    <div class="panel-head"><h4>${w.protocol}</h4><p class=${names.includes(" and ") ? "wrong" : ""}>${names === "nobody" ? "nobody leads" : names.includes(" and ") ? `${names} lead` : `${names} leads`}</p>
      <button type="button" onClick=${() => visit({protocol: w.protocol, schedule: schedule.value}, {time: Math.floor(t)}).then(ok => { if (ok) scrollTo({top: 0}); })}>Open<span class="unseen"> this on ${w.protocol}</span></button></div>
    <div class="both">${s && html`<${Ring} o=${w.overview} s=${s} t=${Math.min(t, w.overview.at)} small=${true} />`}
      <div class="drawing"><canvas class="lanes" ref=${canvas} aria-hidden="true"></canvas><${Needle} range=${range} at=${now} left=${left} /></div></div></section>`;
}

export function Together() {
  if (worlds.value.length === 0) return null;
  const moved = e => {
    playing.value = false;
    now.value = Number(e.target.value);
  };
  return html`
    <h3>The same faults at the same moment</h3>
    <div class="fields">${!still.value && html`<button type="button" class="play" onClick=${play}><span aria-hidden="true">${playing.value ? "❚❚" : "▶"}</span> ${playing.value ? "Pause" : "Play all"}</button>`}
      <input class="scrub" type="range" min="0" max=${until.value} step=${Math.max(1, Math.floor(until.value / 2000))} value=${now.value}
        aria-label="Moment of all worlds" aria-valuetext=${clock(now.value, 3)} onInput=${moved} /><output>${clock(now.value, 3)}</output></div>
    <div class="worlds">${worlds.value.map((w, i) => html`<${World} key=${w.protocol} w=${w} s=${states.value[i]} />`)}</div>`;
}
