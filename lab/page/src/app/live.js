// The page on a cluster that runs: elect demo --web serves it. What happens there comes as events, and is drawn by the
// panels that draw simulated runs. What was seen can be wound back; what is done is done now.
import {batch, effect, html, names, render, signal, useEffect, useRef} from "./html.js";
import {attend, end, live, overview, problem, use} from "./run.js";
import {event, go, leaderId, looked, playing, selected, slow, state, step, still, stop, time, toggle} from "./moment.js";
import {Refused, listen, order, token} from "./livefeed.js";
import {Recording} from "./liverun.js";
import {Acts, Chosen} from "./operate.js";
import {Announcer, say} from "./announce.js";
import {Cluster} from "./cluster.js";
import {Marks} from "./ring.js";
import {Help, Problem} from "./notices.js";
import {Inspector} from "./inspector.js";
import {Lanes} from "./lanes.js";
import {Log} from "./log.js";
import {Button, Panel} from "./panel.js";
import {Timeline} from "./timeline.js";
import {clock, count, length, plural} from "./format.js";
import {follow as show} from "./range.js";
import {jump} from "./transport.js";
import {useKeys} from "./keys.js";

const window_ = 30e9; // of the lanes
const late = 4e8; // the present that is shown may lag so much behind what has come
const silent = 3000; // milliseconds without a message, after which the page says so
const tries = 5, pause = 600; // to connect again, in milliseconds

// The connection: {phase: "connecting" | "live" | "lost" | "ended" | "refused", says}.
const link = signal({phase: "connecting", says: ""});
const about = signal(null); // what the server says first
const atPresent = signal(true); // the present is followed
const proved = signal(null);
const now = signal([]); // what the nodes are like now, whatever moment is shown
const ended = () => link.value.phase === "ended" || link.value.phase === "refused";

let bearer = "", recording = null;
let wake = () => {}; // answers the call of grow that waits

// client answers as the machines do, from the recording.
const client = {
  call: async (method, params) => {
    switch (method) {
      case "catalogue": return {protocols: [], scenarios: [], stories: [], challenges: [], faults: []};
      case "attend": return recording.overview();
      case "grow":
        await new Promise(done => { wake = done; });
        return recording.overview();
      case "state": return recording.state(params);
      case "log": return recording.log(params);
      case "cause": return {past: [], future: []};
      case "letters": return {letters: [], left: 0};
    }
    throw new Error(`nothing of a running cluster answers ${method}`);
  },
};

// heard takes a message of the server.
function heard(kind, data) {
  if (kind === "about") {
    about.value = data;
    if (recording) return; // the connection is back
    recording = new Recording(data);
    use(client).then(attend).then(present);
    return;
  }
  if (kind === "end") return close("ended", `The cluster has ended (${data.says}). What was seen stays here, and can be wound back.`);
  batch(() => {
    if (link.value.phase !== "live" || link.value.says) link.value = {phase: "live", says: ""};
    recording.take(data.events ?? [], data.now);
    recording = recording.kept();
    proved.value = recording.proved;
    now.value = recording.state({event: Infinity}).nodes;
  });
  wake();
}

// close ends the recording: nothing more will come.
function close(phase, says) {
  batch(() => {
    link.value = {phase, says};
    if (recording) recording.o.over = true;
  });
  say(says);
  wake();
}

// connect listens, and tries again some times when the connection is lost.
async function connect() {
  let last = 0, left = tries;
  if (!bearer) return close("refused", "This address has no token; want the one that elect demo --web has printed, in full.");
  while (!ended()) {
    try {
      await listen(bearer, last, (kind, data, id) => {
        last = id;
        left = tries;
        news = performance.now();
        heard(kind, data);
      });
    } catch (error) {
      if (error instanceof Refused) return close("refused", `${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
    }
    if (ended()) return;
    if (left-- === 0) return close("ended", "The cluster has ended: elect demo does not answer any more. What was seen stays here, and can be wound back.");
    link.value = {phase: "lost", says: "The connection is lost; the page tries to get it back."};
    await new Promise(done => setTimeout(done, pause));
  }
}

// A server that hangs, as one that is stopped does, sends nothing, and keeps the connection.
let news = performance.now();
setInterval(() => {
  const quiet = performance.now() - news;
  if (!ended() && link.value.phase !== "lost" && quiet > silent) link.value = {...link.value, says: `The cluster has said nothing for ${Math.floor(quiet / 1000)} s.`};
}, 1000);

// present goes to the present, and follows it.
export function present() {
  const o = overview.value;
  if (!o) return;
  atPresent.value = true;
  go({time: o.at});
  if (!playing.value && !o.over) toggle();
}

// The present is followed until the visitor goes elsewhere. What plays may lag: in a tab that was hidden, or without motion.
effect(() => {
  const o = overview.value;
  if (!o || !live.value) return;
  if (!playing.value) {
    atPresent.value = o.over && time.peek() >= o.at;
    return;
  }
  if (atPresent.peek() && (still.value || o.at - time.peek() > late)) go({time: still.value ? o.at : o.at - late / 4});
  if (o.at - time.peek() < late) atPresent.value = true;
});

// The verbs. Those of the keyboard are those of elect demo at a terminal.
const at = id => now.value.find(n => n.id === id);
const cutOff = id => at(id)?.view.links === "cut";
const leading = () => now.value.find(n => n.proven)?.id ?? "";
const verbs = {
  kill: {name: "Kill", says: "kills its elect run (SIGKILL); its job dies with it", idle: id => !at(id)?.up},
  start: {name: "Start again", says: "starts it again", idle: id => at(id)?.up},
  pause: {name: "Pause", says: "freezes its elect run (SIGSTOP): it does not know that time passes", idle: id => !at(id)?.up || at(id).frozen},
  resume: {name: "Resume", says: "lets it run on (SIGCONT)", idle: id => !at(id)?.frozen},
  "kill-job": {name: "Kill job", says: "kills the job, and not its elect run", idle: id => leading() !== id},
  cut: {name: "Cut off", says: "no message reaches it or leaves it", idle: id => cutOff(id)},
  heal: {name: "Connect", says: "connects it again", idle: id => !cutOff(id)},
  resign: {name: "Resign", says: "asks the leader, whichever it is, to give leadership up", idle: () => !leading()},
  transfer: {name: "Hand over", says: "asks the leader to hand leadership over to the chosen node", idle: id => !leading() || leading() === id},
  "late-write": {name: "Late write", says: "lets a write of an earlier leader arrive late, with its old token", idle: () => (proved.value?.lives ?? 0) < 2},
  chaos: {name: "Chaos", says: "does one of these every few seconds, until you press it again", idle: () => false},
};
const groups = [
  ["Process", ["kill", "start", "pause", "resume"]],
  ["Network", ["cut", "heal"]],
  ["Operator", ["resign", "transfer"]],
  ["Work", ["kill-job", "late-write", "chaos"]],
];

const pointed = signal("");
const answer = signal(""); // what the server had against the last verb

async function act(verb, id = looked.value?.id ?? "") {
  answer.value = "";
  if (ended()) return say(link.value.says);
  present(); // it happens now, whatever moment is shown
  try {
    answer.value = await order(bearer, verb, id);
    if (answer.value) say(answer.value);
  } catch (error) {
    problem.value = link.value.phase === "live" ? error.message : "The cluster does not answer.";
  }
}

function Break() {
  const id = looked.value?.id ?? "", over = ended(), on = proved.value?.chaos;
  const list = groups.map(([group, all]) => [group, all.map(verb => {
    const v = verbs[verb], name = verb === "chaos" && on ? "End chaos" : v.name;
    return {name, says: v.says, idle: v.idle(id), off: over, act: () => act(verb, id)};
  })]);
  return html`
    <${Panel} id="operate" title="Break it" tools=${html`<${Chosen} />`}>
      <${Acts} groups=${list} point=${a => { pointed.value = `${a.name}: ${a.says}.`; answer.value = ""; }} />
      <p class="hint">${over ? "The cluster has ended." : answer.value || pointed.value || `It happens now, to ${id}: a process of this machine.`}</p>
    <//>`;
}

const Figure = ({value, wrong, children}) => html`<div class=${names("figure", wrong && "wrong")}><dd>${value}</dd><dt>${children}</dt></div>`;

// Proof is what the log of the jobs proves, whatever the nodes say of themselves.
function Proof() {
  const p = proved.value, a = about.value;
  return html`
    <${Panel} id="proof" title="What the job’s log proves">
      <dl class="figures">
        <${Figure} value=${plural(p?.overlaps ?? 0, "time")} wrong=${p?.overlaps > 0}>two jobs at once<//>
        <${Figure} value=${count(p?.takeovers ?? 0)}>${p?.took ? `takeovers; the last took ${length(p.took)}` : "takeovers"}<//>
        <${Figure} value=${p?.disorder ? "fell" : "rise"} wrong=${p?.disorder > 0}>tokens, in ${plural(p?.lives ?? 0, "life", "lives")} of the job<//>
        <${Figure} value=${count(p?.late ?? 0)} wrong=${p?.leaked > 0}>late writes refused${p?.leaked ? `, and ${p.leaked} let through` : ""}<//>
      </dl>
      <p class="hint">The job must never run twice at a time. It writes a line to a log every 10 ms, with its token; the log refuses a token
        that is smaller than one it has seen.</p>
      ${a && html`<details><summary>Ask them yourself, in a terminal</summary>
        <p><code>elect status --name demo --election "$(cat ${a.dir}/url)"</code></p></details>`}
    <//>`;
}

function Now() {
  const o = overview.value, behind = (o?.at ?? 0) - time.value, on = atPresent.value && !o?.over;
  return html`<p class="now"><strong>${clock(time.value, 1)}</strong>
    <span>${on ? html`<i class="lamp" aria-hidden="true"></i> live` : o?.over ? "recorded" : `${length(Math.max(1e8, Math.round(behind / 1e8) * 1e8))} ago`}</span></p>`;
}

function Transport() {
  const over = overview.value?.over, on = atPresent.value && !over;
  return html`
    <section class="panel" id="transport" aria-labelledby="transport-title">
      <h2 class="unseen" id="transport-title">Transport</h2>
      <div class="transport-row live">
        <div class="buttons" role="group" aria-label="Steps">
          <${Button} mark="⇤" name="Previous turn (Shift ←)" onClick=${() => jump(true, null, "turn")} />
          <${Button} mark="←" name="One event back (←)" onClick=${() => step(-1)} />
          <button type="button" class="play" aria-keyshortcuts="Space" onClick=${toggle}>
            <span aria-hidden="true">${playing.value ? "❚❚" : "▶"}</span> ${playing.value ? "Hold" : "Play"}</button>
          <${Button} mark="→" name="One event on (→)" onClick=${() => step(1)} />
          <${Button} mark="⇥" name="Next turn (Shift →)" onClick=${() => jump(false, null, "turn")} />
        </div>
        <${Now} />
        <div class="buttons last"><button type="button" class=${names("to-present", !on && !over && "main")} aria-pressed=${String(on)} disabled=${over}
          title="Follow the present (End)" onClick=${present}>Live</button></div>
      </div>
      <${Timeline} />
      <${Announcer} />
    </section>`;
}

const choose = i => { selected.value = overview.value?.nodes[i] ?? ""; };
const either = (a, b, other) => () => act(other(looked.value?.id ?? "") ? b : a);
const keys = [
  {key: " ", name: "Space", says: "hold the picture, or play on from it; the cluster goes on meanwhile", act: toggle},
  {key: "End", name: "End", says: "follow the present", act: present},
  {key: "ArrowRight", name: "→", says: "one event on", act: () => step(1)},
  {key: "ArrowLeft", name: "←", says: "one event back", act: () => step(-1)},
  {key: "ArrowRight", shift: true, name: "Shift →", says: "the next turn", act: () => jump(false, null, "turn")},
  {key: "ArrowLeft", shift: true, name: "Shift ←", says: "the turn before", act: () => jump(true, null, "turn")},
  {key: "1", name: "1 to 3", says: "choose a node", act: () => choose(0)},
  {key: "2", act: () => choose(1)},
  {key: "3", act: () => choose(2)},
  {key: "k", name: "K", says: "kill the chosen node", act: () => act("kill")},
  {key: "s", name: "S", says: "start it again", act: () => act("start")},
  {key: "j", name: "J", says: "kill its job only", act: () => act("kill-job")},
  {key: "p", name: "P", says: "pause it, or let it run on", act: either("pause", "resume", id => at(id)?.frozen)},
  {key: "c", name: "C", says: "cut it off, or connect it again", act: either("cut", "heal", cutOff)},
  {key: "r", name: "R", says: "ask the leader to resign", act: () => act("resign")},
  {key: "t", name: "T", says: "have leadership handed over to the chosen node", act: () => act("transfer")},
  {key: "w", name: "W", says: "let a late write arrive, with an old token", act: () => act("late-write")},
  {key: "x", name: "X", says: "begin chaos, or end it", act: () => act("chaos")},
  {key: "?", name: "?", says: "show this help, or close it", act: page => page.help()},
];

function Status() {
  const {phase, says} = link.value;
  const words = says || {connecting: "The page connects with the cluster.", live: "The cluster runs: three processes on this machine."}[phase];
  return html`<p id="status" role=${ended() || phase === "lost" ? "alert" : "status"}>${words}</p>
    ${phase === "ended" && html`<button type="button" onClick=${() => location.reload()}>Connect anew</button>`}`;
}

// Empty is the page without anything that was seen.
const Empty = () => html`<main class="screen" aria-labelledby="screen-title">
  <h2 id="screen-title">${ended() ? "There is no cluster to see" : "Three processes start"}</h2>
  <p class="lead" id="status" role=${ended() ? "alert" : "status"}>${link.value.says || "In a moment they elect one of them as their leader."}</p>
  ${ended() && html`<p class="hint"><code>elect demo --web</code> starts one, and prints its address. Each has its own.</p>`}
</main>`;

function Page() {
  const dialog = useRef();
  const page = {help: () => (dialog.current.open ? dialog.current.close() : dialog.current.showModal())};
  useKeys(page, keys);
  const a = about.value;
  return html`
    <${Marks} />
    <header>
      <h1>elect <span>a running cluster</span></h1>
      <p class="world-name">${a && `${plural(a.nodes.length, "process", "processes")} on this machine · profile ${a.profile}, a leader is promised ${length(a.promise)}`}</p>
      <div class="buttons help"><button type="button" aria-haspopup="dialog" aria-label="Help" onClick=${page.help}>?</button></div>
    </header>
    <${Problem} />
    ${overview.value ? html`<main>
      <${Transport} />
      <div class="column"><${Cluster} /><${Break} /></div>
      <div class="column"><${Lanes} /><${Log} /></div>
      <div class="column lower"><${Proof} /><${Inspector} /></div>
    </main>` : html`<${Empty} />`}
    ${overview.value && html`<footer><${Status} /></footer>`}
    <${Help} dialog=${dialog} keys=${keys}>What you see are real processes: it is no simulation, and nothing here is faster or slower than it was.
      Stories, challenges and simulated worlds are in <code>electlab page</code>. <//>`;
}

// startLive draws the page, and connects.
export function startLive() {
  bearer = token();
  slow.value = false;
  show(window_);
  render(html`<${Page} />`, document.body);
  addEventListener("hashchange", () => { if (token() !== bearer) location.reload(); });
  connect();
  return {link, overview, state, now};
}
