// The page of the laboratory.
import {effect, html, render, signal, useEffect, useRef} from "./html.js";
import {catalogue, live, overview, problem, trace, use, world} from "./run.js";
import {leaderId, moment, playing, state, visit} from "./moment.js";
import {Cluster} from "./cluster.js";
import {Marks} from "./ring.js";
import {Operate} from "./operate.js";
import {Status} from "./status.js";
import {Transport} from "./transport.js";
import {Share} from "./share.js";
import {Notice} from "./trace.js";
import {Lanes} from "./lanes.js";
import {Inspector} from "./inspector.js";
import {Invariants} from "./invariants.js";
import {Links} from "./links.js";
import {Log} from "./log.js";
import {Spacetime} from "./spacetime.js";
import {Chooser, choosing} from "./chooser.js";
import {Compare} from "./compare.js";
import {opens} from "./workers.js";
import {keys, useKeys} from "./keys.js";
import {Help, Problem} from "./notices.js";
import {decode} from "./link.js";
import {Guide, guided, linkTo} from "./guide.js";
import {Screen, enter, first, screen} from "./start.js";

const comparing = signal(false);

// title says in a few words which world it is.
function title(w) {
  if (live.value) return `${leaderId.value ? `${leaderId.value} leads` : "nobody leads"} · a running cluster`;
  if (!w) return trace.value ? `${overview.value.protocol} · a recorded trace` : "";
  const what = w.scenario ?? (w.profile ? `random world “${w.profile}”` : w.schedule ? "a schedule" : "calm world");
  return `${w.protocol} · ${what} · seed ${w.seed || w.schedule?.seed || 1}`;
}

// follow opens the world of the link; without one, or with a bad one, the first world.
async function follow() {
  if (!catalogue.value) return enter(location.hash); // the rest comes when there are machines
  let wanted = null, wrong = "";
  try {
    if (await guided(location.hash)) return;
    if (!screen.value) wanted = decode(location.hash);
  } catch (error) {
    wrong = error.message;
  }
  if (wanted && await visit(wanted.world, wanted.moment, true)) return;
  wrong ||= problem.value;
  if (!overview.value) await visit(first, {time: 0}, true);
  if (wrong) problem.value = wrong;
}

// The address follows the moment, when the page rests: what is loaded anew is what was seen.
let rest = 0;
effect(() => {
  clearTimeout(rest);
  if (!state.value || state.value.event === 0 || playing.value) return;
  const w = world.value, link = w && linkTo(w, moment());
  if (link) rest = setTimeout(() => history.replaceState(null, "", "#" + link), 500);
  document.title = `${title(w)} · elect`;
});

// Progress says how far the run has grown.
function Progress() {
  const o = overview.value;
  if (!o || o.over) return null;
  return html`<progress aria-label="The run is computed" max=${o.until} value=${o.at}></progress>`;
}

function Page({machines}) {
  const dialog = useRef();
  const page = {
    help: () => (dialog.current.open ? dialog.current.close() : dialog.current.showModal()),
    choose: () => { choosing.value = true; },
    compare: () => {
      comparing.value = !comparing.value;
      if (comparing.value) requestAnimationFrame(() => document.getElementById("compare")?.scrollIntoView());
    },
  };
  useKeys(page);
  useEffect(() => {
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return html`
    <${Marks} />
    <header>
      <h1><a href="#start">elect <span>the laboratory</span></a></h1>
      <p class="world-name">${title(world.value)}</p>
      <div class="buttons">
        <button type="button" aria-haspopup="dialog" onClick=${page.choose}>Worlds</button>
        <button type="button" aria-pressed=${String(comparing.value)} onClick=${page.compare}>Compare</button>
        ${!trace.value && html`<${Share} />`}
        <button type="button" aria-haspopup="dialog" aria-label="Help" onClick=${page.help}>?</button>
      </div>
    </header>
    <${Problem} />
    <${Screen} />
    <main hidden=${screen.value !== ""}>
      <${Guide} />
      <${Notice} />
      <${Transport} />
      <div class="column"><${Cluster} /><${Operate} /></div>
      <div class="column"><${Lanes} /><${Spacetime} /></div>
      <div class="column lower"><${Log} /><${Inspector} /></div>
      <div class="column lower"><${Invariants} /><${Links} /></div>
      ${comparing.value && html`<${Compare} />`}
    </main>
    <footer><${Status} machines=${machines} /><${Progress} /></footer>
    <${Chooser} />
    <${Help} dialog=${dialog} keys=${keys}>The machines are those of <code>elect</code>, compiled for the browser. Nothing is sent anywhere.<//>`;
}

// start draws the page, with machines that open starts, and returns those of the world that is shown.
export function start(open) {
  opens(open);
  const machines = open();
  render(html`<${Page} machines=${machines} />`, document.body);
  // If there are no machines, the status line says why.
  use(machines).then(follow, () => {});
  return machines;
}
