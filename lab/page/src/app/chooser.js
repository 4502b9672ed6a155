// The chooser of worlds: scenarios, random worlds, a calm one, and schedules from files.
import {effect, html, names, signal, useEffect, useRef} from "./html.js";
import {attempt, catalogue, mostNodes, overview, problem, world} from "./run.js";
import {visit} from "./moment.js";
import {machines} from "./workers.js";
import {read, save} from "./schedule.js";
import {leave} from "./start.js";
import {Drop, enterTrace, hasSchedule, isTrace} from "./trace.js";

export const choosing = signal(false);
const protocol = signal("quorum"), search = signal("");
const profile = signal("swarm"), seed = signal(1), nodes = signal(5), seconds = signal(60);
const wrong = signal("");

effect(() => {
  if (world.value && !choosing.value) protocol.value = world.value.protocol;
});

const whole = (value, least, most) => Math.max(least, Math.min(most, Math.round(Number(value)) || least));

// enter opens a world, and leaves the chooser if it can be.
const enter = w => entered(() => visit(w));

async function entered(open) {
  wrong.value = "";
  if (await open()) {
    choosing.value = false;
    leave();
  } else if (choosing.value) {
    wrong.value = problem.value;
    problem.value = "";
  }
}

const enterFile = file => entered(async () => {
  const traced = await attempt(() => {
    if (/\.html?$/i.test(file.name)) {
      throw new Error(`${file.name} is a page, such as the report of a run of make chaos, which any browser shows; want a flight record of that run, from its folders data or flight.`);
    }
    return isTrace(file);
  });
  if (traced === undefined) return false;
  if (traced) return enterTrace(file);
  const w = await attempt(() => read(file));
  return w && visit(w);
});

const text = name => name.replaceAll("-", " ");
const Source = ({source}) => source && html`<p class="hint">${/^https?:/.test(source) ? html`<a href=${source} rel="noreferrer">${source}</a>` : source}</p>`;

const judged = signal({}); // by scenario and protocol: "…", an outcome, or an error
let judge = null;

// weigh runs a scenario to its end, with all of its seeds, in machines of its own.
async function weigh(scenario) {
  const key = `${scenario} ${protocol.value}`, note = said => { judged.value = {...judged.value, [key]: said}; };
  note({says: "It runs …"});
  judge ??= machines();
  try {
    const r = await judge.call("judge", {scenario, protocol: protocol.value});
    note({held: r.held, says: `${r.held ? "✓ As expected" : "✗ Not as expected"}: ${[r.outcome, ...(r.wrong ?? [])].join("; ")} (${r.runs} ${r.runs === 1 ? "run" : "runs"})`});
  } catch (error) {
    judge.close();
    judge = null;
    note({held: false, says: error.message});
  }
}

function Scenario({s}) {
  const expected = s.expected[protocol.value], j = judged.value[`${s.name} ${protocol.value}`];
  return html`<li>
    <h4>${text(s.name)}</h4><p>${s.says}</p>
    <p class="hint">Expected of ${protocol.value}: ${expected}</p><${Source} source=${s.source} />
    <div class="buttons"><button type="button" class="main" onClick=${() => enter({protocol: protocol.value, scenario: s.name})}>Open</button>
      <button type="button" onClick=${() => weigh(s.name)}>Judge it</button></div>
    <p role="status" class=${names(j?.held === true && "right", j?.held === false && "wrong")}>${j?.says}</p></li>`;
}

function Scenarios() {
  const all = catalogue.value?.scenarios ?? [], word = search.value.toLowerCase();
  const found = all.filter(s => s.expected[protocol.value] !== undefined && (!word || `${text(s.name)} ${s.says}`.toLowerCase().includes(word)));
  const others = all.length - all.filter(s => s.expected[protocol.value] !== undefined).length;
  return html`<section aria-labelledby="scenarios-title"><div class="panel-head"><h3 id="scenarios-title">Scenarios</h3>
      <label>Search<input type="search" value=${search.value} onInput=${e => { search.value = e.target.value; }} /></label></div>
    <ul class="scenarios">${found.map(s => html`<${Scenario} key=${s.name} s=${s} />`)}</ul>
    <p class="hint">${found.length === 0 ? "No scenario fits. " : ""}${others > 0 ? `${others} others are for other protocols.` : ""}</p></section>`;
}

const Numbers = ({of}) => of.map(([name, s, least, most]) => html`
  <label>${name}<input type="number" inputmode="numeric" min=${least} max=${most} value=${s.value}
    onChange=${e => { s.value = whole(e.target.value, least, most); e.target.value = s.value; }} /></label>`);
const size = [["Nodes", nodes, 1, mostNodes], ["Seconds", seconds, 1, 3600]];
const seeded = ["Seed", seed, 1, Number.MAX_SAFE_INTEGER];

function Drawn() {
  const says = catalogue.value?.profiles.find(p => p.name === profile.value)?.says;
  const w = () => ({protocol: protocol.value, profile: profile.value, seed: seed.value, nodes: nodes.value, seconds: seconds.value});
  return html`<section aria-labelledby="random-title"><h3 id="random-title">A random world</h3>
    <div class="fields"><label>Faults<select value=${profile.value} onChange=${e => { profile.value = e.target.value; }}>
      ${catalogue.value?.profiles.map(p => html`<option value=${p.name}>${text(p.name)}</option>`)}</select></label>
      <${Numbers} of=${[seeded, ...size]} />
      <button type="button" onClick=${() => { seed.value = 1 + Math.floor(Math.random() * 1e6); }}>Another seed</button>
      <button type="button" class="main" onClick=${() => enter(w())}>Open</button></div>
    <p class="hint">${says}</p></section>`;
}

const Calm = () => html`<section aria-labelledby="calm-title"><h3 id="calm-title">A calm world</h3>
  <div class="fields"><${Numbers} of=${size} />
    <button type="button" class="main" onClick=${() => enter({protocol: protocol.value, nodes: nodes.value, seconds: seconds.value})}>Open</button></div>
  <p class="hint">Nothing breaks but what you break.</p></section>`;

function Files() {
  const w = world.value;
  const chosen = e => {
    if (e.target.files[0]) enterFile(e.target.files[0]);
    e.target.value = "";
  };
  const name = `${overview.value?.protocol}-${w ? w.scenario ?? w.profile ?? "calm" : "trace"}.json`;
  return html`<section aria-labelledby="files-title"><h3 id="files-title">A schedule or a recorded trace, from a file</h3>
    <div class="fields"><label class="file">Open a file<input type="file" onChange=${chosen} /></label>
      ${hasSchedule() && html`<button type="button" onClick=${() => attempt(() => save(name))}>Save this ${w ? "world" : "trace"}’s schedule</button>`}</div>
    <p class="hint">A schedule or a trace as <code>electlab sim</code> writes it, or the flight record of a participant. It may also be dropped
      on the page, and stays in this browser.</p></section>`;
}

function Protocol() {
  const p = catalogue.value?.protocols.find(q => q.name === protocol.value);
  const about = p && [p.leases ? "its leaders prove a lease" : "without leases: leaders count while they are elected", p.store ? `over a store (${p.store})` : "peers elect", p.members ? "members can be changed" : ""];
  return html`<label>Protocol<select value=${protocol.value} onChange=${e => { protocol.value = e.target.value; }}>
    ${catalogue.value?.protocols.map(q => html`<option value=${q.name}>${q.name}</option>`)}</select></label>
    <span class="hint">${about?.filter(Boolean).join("; ")}</span>`;
}

export function Chooser() {
  const dialog = useRef(), open = choosing.value;
  useEffect(() => {
    if (open && !dialog.current.open) dialog.current.showModal();
    if (!open && dialog.current.open) dialog.current.close();
  }, [open]);
  return html`
    <dialog id="chooser" ref=${dialog} aria-labelledby="chooser-title" onClose=${() => { choosing.value = false; wrong.value = ""; }}>
      <div class="panel-head"><h2 id="chooser-title">Choose a world</h2>
        <button type="button" onClick=${() => { choosing.value = false; }}>Close</button></div>
      <div class="fields"><${Protocol} /></div>
      <p role="alert">${wrong.value}</p>
      ${open && html`<${Calm} /><${Drawn} /><${Files} /><${Scenarios} />`}
    </dialog>
    <${Drop} open=${enterFile} />`;
}
