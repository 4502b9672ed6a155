// The log: turns, or every line, a window at a time; a selected line shows what led to it, and what it led to.
import {computed, effect, html, names, signal, useEffect, useRef} from "./html.js";
import {attempt, call, generation, live, overview, unknown} from "./run.js";
import {event, go, line, playing, stop} from "./moment.js";
import {cone} from "./cone.js";
import {Panel} from "./panel.js";
import {clock, count} from "./format.js";

const page = 80; // lines that are asked for at once
const most = 400; // lines that are kept

const turnsOnly = signal(true);
const node = signal(""), kind = signal("");
const lines = signal([]);
const ends = signal({first: false, last: false}); // whether there is nothing earlier, or later

const kinds = {
  receive: "receipts", send: "messages leave", lost: "losses", fire: "timers", command: "commands", reply: "answers of the store",
  durable: "saves", write: "writes", boot: "starts", down: "ends", fault: "faults", heal: "faults end", violation: "violations",
  state: "states that a record begins with", note: "notes",
};

const filter = () => ({node: node.value, kinds: kind.value ? [kind.value] : [], turns: turnsOnly.value});
const ask = params => attempt(() => call("log", {...filter(), count: page, ...params})).then(a => a?.lines ?? []);

// around loads what is around the present event.
async function around() {
  const run = generation.value, at = event.value;
  const before = await ask({event: at, back: true});
  const from = before.at(-1)?.number ?? 0;
  const after = await ask({from: from + 1});
  if (run !== generation.value) return;
  lines.value = [...before, ...after.filter(l => l.number > from)];
  ends.value = {first: before.length < page, last: after.length < page && overview.value.over};
}

async function more(back) {
  const all = lines.value;
  const got = back ? await ask({from: all[0].number - 1, back: true}) : await ask({from: all.at(-1).number + 1});
  if (all !== lines.value) return;
  const fresh = got.filter(l => (back ? l.number < all[0].number : l.number > all.at(-1).number));
  lines.value = back ? [...fresh, ...all].slice(0, most) : [...all, ...fresh].slice(-most);
  ends.value = back
    ? {first: fresh.length < page, last: ends.value.last && all.length + fresh.length <= most}
    : {first: ends.value.first && all.length + fresh.length <= most, last: fresh.length < page && overview.value.over};
}

// The window follows the moment, and the filters.
let shown = "";
effect(() => {
  const o = overview.value, at = event.value;
  if (!o || o.events === 0 || playing.value && !live.value) return;
  const key = [generation.value, node.value, kind.value, turnsOnly.value, o.over].join();
  const all = lines.peek();
  const inside = all.length > 0 && (ends.peek().first || all[0].event <= at) && (ends.peek().last || all.at(-1).event >= at);
  if (key === shown && inside) return;
  shown = key;
  around();
});

function choose(l) {
  if (playing.value) stop();
  line.value = l.number;
  go({event: l.event});
}

// turns are the sentences of the turns, by their event.
const turns = computed(() => Map.groupBy(overview.value?.turns ?? [], t => t.event));

// words are what a line says: of a turn, its sentence first, and then what led to it.
function words(l) {
  if (!turnsOnly.value) return [l.says];
  const step = ["step", "receive", "reply", "fire", "command"].includes(l.kind);
  const kinds = step ? ["elected", "leads", "stops", "term"] : [l.kind === "boot" ? "up" : l.kind];
  const mine = (turns.value.get(l.event) ?? []).filter(t => kinds.includes(t.kind) && (t.node ?? "") === (l.node ?? ""));
  return mine.length === 0 ? [l.says] : [mine.map(t => t.says).join("; "), step ? l.says : ""];
}

function Row({l, now}) {
  const c = cone.value, part = l.number === line.value ? "chosen" : c.past.has(l.number) ? "past" : c.future.has(l.number) ? "future" : "";
  const [says, detail] = words(l);
  const mark = {chosen: "●", past: "↑", future: "↓"}[part] ?? "";
  return html`<li class=${names("row", part, now && "now-row", l.kind === "violation" && "wrong", l.turn && "turn")}>
    <button type="button" aria-current=${now ? "true" : undefined} onClick=${() => choose(l)}>
      <span class="mark" aria-hidden="true">${mark}</span>
      ${part && html`<span class="unseen">${{chosen: "Selected.", past: "It led to the selected line.", future: "The selected line led to it."}[part]}</span>`}
      <time>${clock(l.at, turnsOnly.value ? 3 : 6)}</time><span class="says">${says}${detail && html`<small>${detail}</small>`}</span>
    </button></li>`;
}

const Filters = () => html`
  <label class="check"><input type="checkbox" checked=${!turnsOnly.value} onChange=${e => { turnsOnly.value = !e.target.checked; }} /> Every line</label>
  <label><span class="unseen">Node</span><select value=${node.value} onChange=${e => { node.value = e.target.value; }}>
    <option value="">all nodes</option>${overview.value?.nodes.map(id => html`<option value=${id}>${id}</option>`)}</select></label>
  <label><span class="unseen">Kind</span><select value=${kind.value} onChange=${e => { kind.value = e.target.value; }}>
    <option value="">all kinds</option>${Object.entries(overview.value?.kinds ?? kinds).map(([k, says]) => html`<option value=${k}>${says}</option>`)}</select></label>`;

// present is the last of the lines that have happened.
const present = computed(() => lines.value.findLast(l => l.event <= event.value)?.number);

export function Log() {
  const list = useRef();
  const all = lines.value, now = present.value;
  useEffect(() => {
    const row = list.current?.querySelector(".now-row"), box = list.current;
    if (row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }, [now, all]);
  return html`
    <${Panel} id="log" title="Log" tools=${html`<${Filters} />`}>
      <ol class="log" ref=${list} tabindex="0" aria-label="Lines of the log">
        ${!ends.value.first && all.length > 0 && html`<li><button type="button" class="quiet" onClick=${() => more(true)}>Earlier lines</button></li>`}
        ${all.map(l => html`<${Row} key=${l.number} l=${l} now=${l.number === now} />`)}
        ${!ends.value.last && all.length > 0 && html`<li><button type="button" class="quiet" onClick=${() => more(false)}>Later lines</button></li>`}
        ${all.length === 0 && html`<li class="empty">No line fits.</li>`}
      </ol>
      <p class="hint">${count(overview.value?.lines ?? 0)} lines in all.
        ${line.value > 0 ? html` ↑ led to line ${count(line.value)}, ↓ came of it. <button type="button" class="quiet" onClick=${() => { line.value = 0; }}>Deselect</button>`
          : unknown("causes") || " Select a line to see what led to it, and what it led to."}</p>
    <//>`;
}
