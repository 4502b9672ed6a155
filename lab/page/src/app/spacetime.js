// The space-time diagram: a line for each participant, time to the right, and the messages from line to line.
import {html, useRef} from "./html.js";
import {overview, unknown} from "./run.js";
import {go, line, playing, step, stop} from "./moment.js";
import {Button, Drawn, Table} from "./panel.js";
import {clock, length} from "./format.js";
import {cone} from "./cone.js";
import {useDrawing} from "./canvas.js";
import {closer, heartbeats, letters, part} from "./letters.js";
import {draw, nearest} from "./spacedraw.js";

// select looks at a message: at its receipt, or at the step that sent it.
function select(l) {
  if (playing.value) stop();
  line.value = l.receiver || l.sender;
  go({time: l.receiver ? l.arrived : l.sent});
}

function pressed(e) {
  const act = {ArrowLeft: () => step(-1), ArrowRight: () => step(1), "+": () => closer(0.5), "=": () => closer(0.5), "-": () => closer(2)}[e.key];
  if (!act || e.shiftKey || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  e.stopPropagation();
  act();
}

const Tools = () => html`
  <label class="check"><input type="checkbox" checked=${heartbeats.value} onChange=${e => { heartbeats.value = e.target.checked; }} /> Heartbeats</label>
  <${Button} mark="−" name="Show more (−)" onClick=${() => closer(2)} />
  <${Button} mark="+" name="Closer (+)" onClick=${() => closer(0.5)} />`;

const name = place => overview.value?.nodes[place] ?? "the store";

function Letters() {
  if (playing.value) return html`<p>The run plays.</p>`;
  const {from, until} = part.value;
  const shown = letters.value.all.filter(l => l.sent <= until && (l.arrived || l.sent) >= from).slice(0, 200);
  return html`<${Table} caption="Messages around this moment" head=${["Sent", "From", "To", "Message", "Arrived", "Choose"]} rows=${shown.map(l => [
    clock(l.sent), name(l.from), name(l.to), l.type, l.lost ? "lost" : l.arrived ? clock(l.arrived) : "not yet",
    html`<button type="button" aria-label=${`Select ${l.type} from ${name(l.from)} to ${name(l.to)}`} onClick=${() => select(l)}>Select</button>`,
  ])} />`;
}

export function Spacetime() {
  const canvas = useRef();
  useDrawing(canvas, element => draw(element, {
    overview: overview.value, part: part.value, letters: letters.value.all, cone: cone.value, line: line.value,
  }));
  const clicked = e => {
    const box = canvas.current.getBoundingClientRect();
    const found = nearest(canvas.current, e.clientX - box.left, e.clientY - box.top);
    if (found.letter) return select(found.letter);
    if (playing.value) stop();
    go({time: Math.floor(Math.max(0, Math.min(found.time, overview.value?.at ?? 0)))});
  };
  const {from, until} = part.value;
  const none = !letters.value.all.some(l => l.sent <= until && (l.arrived || l.sent) >= from);
  return html`
    <${Drawn} id="messages" title="Messages in time" tools=${html`<${Tools} />`} table=${Letters}>
      <canvas class="lanes" ref=${canvas} tabindex="0" role="img" aria-label="Space-time diagram; the table has the same in words"
        onClick=${clicked} onKeyDown=${pressed}></canvas>
      <p class="hint">${length(until - from)} are shown.${letters.value.left > 0 ? ` ${letters.value.left} messages are left out: go closer.` : ""}
        ${heartbeats.value ? "" : " Heartbeats are left out."}
        ${unknown("letters") ? ` ${unknown("letters")}` : none ? " Nothing is on its way here: show more, or go to the next turn." : " Select a message to see what led to it, and what it led to."}</p>
    <//>`;
}
