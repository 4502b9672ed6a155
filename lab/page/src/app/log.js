// The log: turns, or every line. Only the lines in sight are drawn, however many there are; a selected line shows what led
// to it, and what it led to.
import {batch, computed, effect, html, names, signal, useEffect, useRef, useSignal} from "./html.js";
import {attempt, call, generation, live, overview, unknown} from "./run.js";
import {event, go, line, playing, stop} from "./moment.js";
import {cone} from "./cone.js";
import {Panel} from "./panel.js";
import {clock, count} from "./format.js";

const size = 100; // lines that are asked for at once
const highest = 8e6; // of the list, in pixels, as browsers have a limit: beyond it the scrollbar goes in greater steps

const turnsOnly = signal(true);
const node = signal(""), kind = signal("");
const fit = signal(0); // how many lines fit the filters, so far
const present = signal(-1); // the place among them of the last one that has happened
const active = signal(-1); // the place of the one that the keyboard is at
const pages = signal(new Map()); // by number: {lines, grown}, of so many lines of the run; null while it is asked for
const told = signal(""); // the whole sentence of the line that was selected last

const kinds = {
  receive: "receipts", send: "messages leave", lost: "losses", fire: "timers", command: "commands", reply: "answers of the store",
  durable: "saves", write: "writes", boot: "starts", down: "ends", fault: "faults", heal: "faults end", violation: "violations",
  state: "states that a record begins with", note: "notes",
};

const choice = computed(() => [generation.value, node.value, kind.value, turnsOnly.value].join());
const ask = params => {
  const of = choice.peek();
  return attempt(() => call("log", {node: node.peek(), kinds: kind.peek() ? [kind.peek()] : [], turns: turnsOnly.peek(), ...params}))
    .then(answer => (of === choice.peek() ? answer : undefined)); // else it is of other filters, or of another world
};

// lineAt is the line at a place; undefined while it has not come.
function lineAt(place) {
  const n = Math.floor(place / size), page = pages.value.get(n), grown = overview.value?.lines ?? 0;
  if (page === undefined || page && page.lines.length < size && page.grown < grown) load(n, grown);
  return page?.lines[place % size];
}

async function load(n, grown) {
  const was = pages.peek();
  was.set(n, was.get(n) ? {...was.get(n), grown} : null);
  const answer = await ask({index: n * size, count: size});
  if (was.size > 0 && pages.peek().get(n) === undefined || !answer) return;
  const all = new Map(pages.peek());
  all.set(n, {lines: answer.lines, grown});
  batch(() => {
    pages.value = all;
    fit.value = Math.max(fit.value, answer.fit);
  });
}

// What has come is forgotten where other lines are wanted.
effect(() => {
  if (!choice.value) return;
  batch(() => {
    pages.value = new Map();
    fit.value = 0;
    present.value = active.value = -1;
  });
});

// The place of the moment follows it.
let finding = false, again = false;
effect(() => {
  const o = overview.value, at = event.value;
  if (!choice.value || !o || o.events === 0 || playing.value && !live.value || at < 0) return;
  again = true;
  if (!finding) find();
});

async function find() {
  finding = true;
  while (again) {
    again = false;
    const answer = await ask({event: event.peek(), back: true, count: 1});
    if (!answer) continue;
    batch(() => {
      fit.value = answer.fit;
      present.value = answer.lines.length > 0 ? answer.first : -1;
    });
  }
  finding = false;
}

function choose(l, place) {
  if (!l) return;
  if (playing.value) stop();
  active.value = place;
  line.value = l.number;
  told.value = `${clock(l.at)}: ${words(l).filter(Boolean).join("; ")}`;
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

function Row({place, top}) {
  const l = lineAt(place), now = place === present.value, style = {top: top + "px"};
  const common = {id: `log-${place}`, role: "option", "aria-posinset": place + 1, "aria-setsize": fit.value, style};
  if (!l) return html`<div class="row" aria-selected="false" ...${common}>…</div>`;
  const c = cone.value, part = l.number === line.value ? "chosen" : c.past.has(l.number) ? "past" : c.future.has(l.number) ? "future" : "";
  const [says, detail] = words(l);
  const mark = {chosen: "●", past: "↑", future: "↓"}[part] ?? "";
  return html`<div class=${names("row", part, now && "now-row", place === active.value && "active", l.kind === "violation" && "wrong", l.turn && "turn")} ...${common}
    aria-selected=${String(part === "chosen")} aria-current=${now ? "true" : undefined} title=${says} onClick=${() => choose(l, place)}>
      <span class="mark" aria-hidden="true">${mark}</span>
      ${part && html`<span class="unseen">${{chosen: "Selected.", past: "It led to the selected line.", future: "The selected line led to it."}[part]}</span>`}
      <time>${clock(l.at, turnsOnly.value ? 3 : 6)}</time><span class="says">${says}${detail && html`<small>${detail}</small>`}</span></div>`;
}

const Filters = () => html`
  <label class="check"><input type="checkbox" checked=${!turnsOnly.value} onChange=${e => { turnsOnly.value = !e.target.checked; }} /> Every line</label>
  <label><span class="unseen">Node</span><select value=${node.value} onChange=${e => { node.value = e.target.value; }}>
    <option value="">all nodes</option>${overview.value?.nodes.map(id => html`<option value=${id}>${id}</option>`)}</select></label>
  <label><span class="unseen">Kind</span><select value=${kind.value} onChange=${e => { kind.value = e.target.value; }}>
    <option value="">all kinds</option>${Object.entries(overview.value?.kinds ?? kinds).map(([k, says]) => html`<option value=${k}>${says}</option>`)}</select></label>`;

// measured says how high rows and the box are, and how the list is mapped to what is scrolled.
function measured(box, n) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const row = parseFloat(getComputedStyle(box).getPropertyValue("--row")) * rem, high = box.clientHeight, all = n * row;
  const height = Math.min(all, highest), by = all > highest ? (all - high) / (height - high) : 1;
  return {row, high, all, height, by};
}

function Lines() {
  const box = useRef(), top = useSignal(0), sized = useSignal(0), n = fit.value, at = present.value;
  const m = box.current && sized.value >= 0 ? measured(box.current, n) : null;

  // reveal has a place in sight; in the middle, if it was out of sight or has to be.
  const reveal = (place, middle) => {
    const {row, high, all, by} = measured(box.current, fit.value), from = box.current.scrollTop * by, y = place * row;
    if (!middle && y >= from && y + row <= from + high) return;
    const step = !middle && Math.abs(y - from) < 2 * high ? (y < from ? y : y + row - high) : y + row / 2 - high / 2;
    box.current.scrollTop = Math.max(0, Math.min(step, all - high)) / by;
  };
  useEffect(() => {
    const watch = new ResizeObserver(() => { sized.value++; });
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => { if (at >= 0) reveal(at); }, [at, choice.value]);

  const pressed = e => {
    const {row, high} = measured(box.current, fit.value), page = Math.max(1, Math.floor(high / row) - 1), from = active.value < 0 ? at : active.value;
    const to = {ArrowUp: from - 1, ArrowDown: from + 1, PageUp: from - page, PageDown: from + page, Home: 0, End: n - 1}[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey || e.shiftKey || n === 0 || to === undefined && e.key !== "Enter") return;
    e.preventDefault();
    e.stopPropagation();
    if (to === undefined) return choose(lineAt(from), from);
    active.value = Math.max(0, Math.min(n - 1, to));
    reveal(active.value);
  };
  const rows = [];
  let shown = false; // the line that the keyboard is at is among those in sight
  if (m && n > 0) {
    const from = top.value * m.by, first = Math.max(0, Math.floor(from / m.row) - 4), last = Math.min(n - 1, Math.ceil((from + m.high) / m.row) + 4);
    shown = active.value >= first && active.value <= last;
    for (let i = first; i <= last; i++) rows.push(html`<${Row} key=${i} place=${i} top=${i * m.row - from + top.value} />`);
  }
  return html`
    <div class=${names("log", turnsOnly.value && "turns")} ref=${box} tabindex="0" role="listbox" aria-label="Lines of the log"
      aria-activedescendant=${shown ? `log-${active.value}` : undefined} onKeyDown=${pressed}
      onFocus=${() => { if (active.value < 0) active.value = Math.max(at, 0); }} onScroll=${e => { top.value = e.currentTarget.scrollTop; }}>
      <div role="presentation" class="lines" style=${{height: `${m?.height ?? 0}px`}}>${rows}</div>
      ${n === 0 && html`<p class="empty" role="option" aria-selected="false">No line fits.</p>`}
    </div>`;
}

export const Log = () => html`
  <${Panel} id="log" title="Log" tools=${html`<${Filters} />`}>
    <${Lines} />
    <p class="hint">${fit.value < (overview.value?.lines ?? 0) && `${count(fit.value)} of `}${count(overview.value?.lines ?? 0)} lines.
      ${line.value > 0 ? html` ↑ led to line ${count(line.value)}, ↓ came of it. <button type="button" class="quiet" onClick=${() => { line.value = 0; }}>Deselect</button>`
        : unknown("causes") || " Select a line, with Enter or a click, to see what led to it, and what it led to."}</p>
    ${line.value > 0 && html`<p class="told">${told.value}</p>`}
  <//>`;
