// The ownership lanes: who believed that it leads, who could prove it, and who truly led; and what became of the writes.
import {computed, html, useRef} from "./html.js";
import {end, overview, unknown} from "./run.js";
import {go, playing, stop, time} from "./moment.js";
import {Button, Drawn, Table} from "./panel.js";
import {clock, length} from "./format.js";
import {letter} from "./terms.js";
import {useDrawing} from "./canvas.js";
import {Needle} from "./needle.js";
import {all, pan, range, zoom} from "./range.js";
import {draw, left} from "./lanesdraw.js";

function goTo(t) {
  if (playing.value) stop();
  go({time: Math.floor(Math.max(0, Math.min(t, overview.value?.at ?? 0)))});
}

// pressed are the keys of the drawing: the arrows move the moment by a hundredth of what is shown.
function pressed(e) {
  const {from, until} = range.value, step = (until - from) / 100;
  const act = {
    ArrowLeft: () => goTo(time.value - step), ArrowRight: () => goTo(time.value + step),
    PageUp: () => pan(-0.5), PageDown: () => pan(0.5), Home: () => goTo(0), End: () => goTo(end.value),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all,
  }[e.key];
  if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  e.stopPropagation();
  act();
}

const spans = list => list.map(s => `${clock(s.from, 3)} to ${clock(s.until, 3)}`).join("; ") || "never";

function Tenures() {
  const o = overview.value;
  const writes = lane => {
    const mine = (o?.writes ?? []).filter(w => w.node === lane.node && w.token === lane.token);
    const of = (ok, stale) => mine.filter(w => w.ok === ok && w.stale === stale).reduce((n, w) => n + (w.count ?? 1), 0);
    return `${of(true, false)} accepted, ${of(false, true)} refused, ${of(true, true)} stale and accepted`;
  };
  return html`<${Table} caption="Tenures" head=${["Term", "Node", "Token", "Believes it leads", "Its lease is valid", "Truly leads", "Writes"]}
    rows=${(o?.lanes ?? []).map(l => [letter(l.token), l.node, l.token, spans([l.believes]), o.leases ? spans(l.proven) : "no leases", l.true ? spans(l.true) : "not known", unknown("writes") ? "not known" : writes(l)])} />
    <p>${unknown("terms") || `Two at once: ${spans(o?.both ?? [])}.`}</p>`;
}

const Tools = () => html`
  <${Button} mark="◀" name="Earlier (Page up)" onClick=${() => pan(-0.5)} />
  <${Button} mark="▶" name="Later (Page down)" onClick=${() => pan(0.5)} />
  <${Button} mark="−" name="Show more (−)" onClick=${() => zoom(2)} />
  <${Button} mark="+" name="Closer (+)" onClick=${() => zoom(0.5)} />
  <button type="button" title="Show the whole run (0)" onClick=${all}>All</button>`;

function Legend() {
  const o = overview.value;
  return html`<ul class="legend keys">
    <li><i class="key believes"></i>believes it leads</li>
    ${o?.leases && html`<li><i class="key proven"></i>its lease is valid, by its own clock</li>`}
    ${!unknown("terms") && html`<li><i class="key true"></i>truly leads</li>
    <li><i class="key both"></i>two at once</li>`}
    <li><i class="key frozen"></i>frozen</li><li><i class="key dead"></i>dead</li>
    ${!unknown("writes") && html`<li>write: <b>│</b> accepted, <b>✕</b> refused, <b class="wrong">▲</b> stale, but accepted</li>`}
  </ul>`;
}

// tenth is the moment in tenths of a second: screen readers need no more.
const tenth = computed(() => Math.floor(time.value / 1e8));

export function Lanes() {
  const canvas = useRef();
  useDrawing(canvas, element => draw(element, {overview: overview.value, range: range.value}));
  const clicked = e => {
    const {from, until} = range.value, box = canvas.current.getBoundingClientRect();
    goTo(from + (e.clientX - box.left - left) / (box.width - left) * (until - from));
  };
  const shown = range.value, t = Math.floor(tenth.value * 1e8);
  return html`
    <${Drawn} id="lanes" title="Who leads, and who believes it" tools=${html`<${Tools} />`} table=${Tenures}>
      <div class="drawing"><canvas class="lanes" ref=${canvas} tabindex="0" role="slider" aria-label="Ownership lanes; the table has the same in words"
        aria-valuemin="0" aria-valuemax=${end.value} aria-valuenow=${t}
        aria-valuetext=${`${clock(t, 1)}; ${length(shown.until - shown.from)} are shown`} onClick=${clicked} onKeyDown=${pressed}></canvas><${Needle} range=${range} at=${time} left=${left} /></div>
      <${Legend} />
    <//>`;
}
