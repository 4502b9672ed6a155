// Recorded traces from files: how one is opened and left, and the notice that says what it is and does not tell.
import {html, signal, useEffect, useRef} from "./html.js";
import {attempt, call, trace, unknown, watch, world} from "./run.js";
import {begin, moment, visit} from "./moment.js";
import {first} from "./start.js";
import {scheduled} from "./schedule.js";
import {count} from "./format.js";

const largest = 128 * 2 ** 20; // bytes, as the machines have it

const name = signal(""); // of the file
const narrow = matchMedia("(max-width: 640px)");
let before = null; // what was shown before the trace

// isTrace tells a trace from a schedule by its first line: in a trace that is an object, and more lines follow it.
export async function isTrace(file) {
  const [line, ...rest] = (await file.slice(0, 16e6).text()).trimStart().split("\n", 2);
  try {
    const header = JSON.parse(line);
    return typeof header?.source === "string" || typeof header === "object" && rest.some(l => l.trim());
  } catch {
    return false;
  }
}

// enterTrace opens a file that is one, and says whether it could be. What was shown stays if not.
export async function enterTrace(file) {
  const was = world.value && {world: world.value, at: moment()};
  const o = await attempt(async () => {
    if (file.size > largest) throw new Error(`${file.name} has ${count(file.size)} bytes; want a trace of ${count(largest)} at most`);
    return watch(await file.text());
  });
  if (!o) return false;
  if (was) before = was;
  name.value = file.name;
  begin({time: 0});
  return true;
}

// leaveTrace shows the world from before the trace again.
const leaveTrace = () => (before ? visit(before.world, before.at) : visit(first));

// hasSchedule says whether what is shown, world or trace, has a schedule.
export const hasSchedule = () => !trace.value || trace.value.source === "sim" && !unknown("faults");

// enterSchedule opens the trace's schedule as a world.
const enterSchedule = () => attempt(async () => scheduled(name.value, (await call("schedule")).schedule)).then(w => w && visit(w));

const sources = {sim: "a run of the simulator", chaos: "a run of real processes that were broken on purpose", recorder: "the flight record of a participant"};

export function Notice() {
  const t = trace.value;
  if (!t) return null;
  return html`
    <section class="panel" id="trace" aria-labelledby="trace-title">
      <div class="panel-head"><h2 id="trace-title">Recorded trace: ${name.value}</h2>
        <div class="tools">${hasSchedule() && html`<button type="button" onClick=${enterSchedule}>Open its schedule as a world</button>`}
          <button type="button" class="main" onClick=${leaveTrace}>Leave the trace</button></div></div>
      <p>It is ${sources[t.source] ?? t.source}${t.seed ? `, seed ${t.seed}` : ""}${t.build ? `, by build ${t.build}` : ""}. Nothing can be broken in it. It is
        in this browser only, so there is no link to share.</p>
      ${t.note && html`<p role="alert">${t.note}</p>`}
      <details open=${!narrow.matches}><summary>What it does not tell</summary><ul>${t.unknown.map(u => html`<li key=${u.what}>${u.says}</li>`)}</ul></details>
    </section>`;
}

// Drop opens a file that is dropped anywhere on the page, and says so while one is held over it.
export function Drop({open}) {
  const hint = useRef();
  useEffect(() => {
    const show = on => hint.current.togglePopover?.(on); // above open dialogs
    const over = e => {
      e.preventDefault();
      if (e.dataTransfer?.types.includes("Files")) show(true);
    };
    const left = e => { if (!e.relatedTarget) show(false); };
    const dropped = e => {
      e.preventDefault();
      show(false);
      if (e.dataTransfer?.files[0]) open(e.dataTransfer.files[0]);
    };
    const all = {dragover: over, dragleave: left, drop: dropped};
    for (const [event, act] of Object.entries(all)) addEventListener(event, act);
    return () => { for (const [event, act] of Object.entries(all)) removeEventListener(event, act); };
  }, []);
  return html`<div id="drop" popover="manual" ref=${hint}>Drop a schedule or a recorded trace to open it</div>`;
}
