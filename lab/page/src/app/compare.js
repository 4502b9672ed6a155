// Compare: the same faults for several protocols, in figures and side by side.
import {html, signal, useEffect} from "./html.js";
import {attempt, call, catalogue, overview, problem, world} from "./run.js";
import {Panel} from "./panel.js";
import {machines} from "./workers.js";
import {plural} from "./format.js";
import {Report} from "./report.js";
import {Together, forget, gather} from "./together.js";

const source = signal("drawn"); // or "world"
const profile = signal("swarm"), seeds = signal(20), first = signal(1), nodes = signal(5), seconds = signal(60);
const chosen = signal(null); // protocols; null is the catalogue's proposal
const lines = signal([]);
const progress = signal(null); // {says, part} while something runs
let running = null; // the machines that run it

const most = 7; // protocols at once
const protocols = () => chosen.value ?? (catalogue.value?.compared ?? []).slice(0, most);

function toggle(name, on) {
  const all = protocols().filter(p => p !== name);
  chosen.value = on ? [...all, name] : all;
}

// what says what is compared: params are those of the method compare, without the protocols.
async function what() {
  if (source.value === "drawn") {
    return {params: {profile: profile.value, seeds: seeds.value, first: first.value, nodes: nodes.value, seconds: seconds.value}};
  }
  const {schedule} = await call("schedule");
  return {params: {schedule: JSON.parse(schedule)}};
}

// scheduleOf is the schedule that the protocols share: a seed's faults are drawn for quorum, and adapted to the others.
async function scheduleOf(machines, params) {
  if (params.schedule) return params.schedule;
  await machines.call("open", {protocol: "quorum", profile: params.profile, seed: params.first, nodes: params.nodes, seconds: params.seconds});
  return JSON.parse((await machines.call("schedule")).schedule);
}

function cancel() {
  running?.close();
  running = null;
  progress.value = null;
}

// close gives up the worlds, when the panel is closed; the figures stay.
function close() {
  cancel();
  forget();
}

async function run() {
  cancel();
  lines.value = [];
  const all = protocols(), mine = running = machines();
  try {
    const {params} = await what();
    progress.value = {says: "The worlds run side by side", part: 0};
    const schedule = await scheduleOf(mine, params);
    await gather(machines(), all, schedule, part => { if (running === mine) progress.value = {says: "The worlds run side by side", part: part * 0.3}; });
    for (const [i, protocol] of all.entries()) {
      const says = `${protocol} is measured`, at = part => ({says, part: 0.3 + 0.7 * (i + part) / all.length});
      progress.value = at(0);
      const r = await mine.call("compare", {...params, protocols: [protocol]}, (done, of) => { if (running === mine) progress.value = at(done / of); });
      lines.value = [...lines.value, ...r.protocols];
    }
  } catch (error) {
    if (running === mine) problem.value = error.message;
  }
  if (running === mine) cancel();
}

const Field = ({name, s, least, top}) => html`<label>${name}<input type="number" inputmode="numeric" min=${least} max=${top} value=${s.value}
  onChange=${e => { s.value = Math.max(least, Math.min(top, Math.round(e.target.value) || least)); e.target.value = s.value; }} /></label>`;

function Settings() {
  const has = new Set(protocols());
  const pick = (value, name) => html`<label class="check"><input type="radio" name="source" value=${value} checked=${source.value === value}
    onChange=${() => { source.value = value; }} /> ${name}</label>`;
  return html`
    <fieldset class="fields"><legend>Faults</legend>
      ${pick("drawn", "drawn from seeds")}${pick("world", "those of the world that is shown, with yours")}
      ${source.value === "drawn" && html`<label>Family<select value=${profile.value} onChange=${e => { profile.value = e.target.value; }}>
        ${catalogue.value?.profiles.map(p => html`<option value=${p.name}>${p.name}</option>`)}</select></label>
        <${Field} name="Seeds" s=${seeds} least=${1} top=${1000} /><${Field} name="From seed" s=${first} least=${1} top=${Number.MAX_SAFE_INTEGER} />
        <${Field} name="Nodes" s=${nodes} least=${1} top=${9} /><${Field} name="Seconds" s=${seconds} least=${1} top=${3600} />`}
    </fieldset>
    <fieldset class="fields"><legend>Protocols, ${most} at most</legend>
      ${catalogue.value?.protocols.map(p => html`<label class="check"><input type="checkbox" checked=${has.has(p.name)}
        disabled=${!has.has(p.name) && has.size >= most} onChange=${e => toggle(p.name, e.target.checked)} /> ${p.name}</label>`)}
    </fieldset>`;
}

export function Compare() {
  const p = progress.value, n = protocols().length;
  useEffect(() => close, []);
  return html`
    <${Panel} id="compare" title="Compare protocols" wide=${true}>
      <p class="hint">Each protocol meets the same faults. Acts of operators are left out, and what a protocol does not have is adapted.</p>
      <${Settings} />
      <div class="fields"><button type="button" class="main" disabled=${n === 0 || p !== null || !overview.value || !world.value} onClick=${() => attempt(run)}>Compare ${plural(n, "protocol")}</button>
        <button type="button" disabled=${p === null} onClick=${cancel}>Cancel</button>
        <span role="status">${p?.says}</span>${p && html`<progress aria-label="Comparison" max="1" value=${p.part}></progress>`}</div>
      <${Together} />
      <${Report} lines=${lines.value} />
    <//>`;
}
