// The timeline: the whole run, with its terms, faults, turns and the moment that is shown.
import {computed, html, useRef} from "./html.js";
import {end, overview} from "./run.js";
import {go, playing, stop, time} from "./moment.js";
import {colour, letter, palette} from "./terms.js";
import {clock} from "./format.js";
import {Needle} from "./needle.js";
import {fitted, hatch, useDrawing} from "./canvas.js";

const height = 44;

// draw draws all of it but the moment. Terms are bands with letters; faults are above them, violations below.
function draw(canvas) {
  const {c, width} = fitted(canvas, height);
  const o = overview.value, p = palette();
  if (!o) return;
  const x = t => t / end.value * width;
  c.fillStyle = p.ground;
  c.fillRect(0, 14, width, 18);
  c.font = `600 11px ${p.font}`;
  c.textBaseline = "middle";
  for (const lane of o.lanes) {
    const {from, until} = lane.believes, w = Math.max(x(until) - x(from), 1), k = colour(lane.token);
    c.fillStyle = p.terms[k];
    c.fillRect(x(from), 14, w, 18);
    const name = letter(lane.token);
    if (w > c.measureText(name).width + 6) {
      c.fillStyle = p.ink[k];
      c.fillText(name, x(from) + 4, 23.5);
    }
  }
  for (const both of o.both) hatch(c, x(both.from), 14, Math.max(x(both.until) - x(both.from), 2), 18, p.wrong);
  for (const m of o.marks) {
    const w = Math.max(x(m.until || o.at) - x(m.from), 3);
    c.fillStyle = m.hand >= 0 ? p.accent : p.faint;
    if (m.hand >= 0) {
      c.fillRect(x(m.from), 6, w, 4);
      c.beginPath();
      c.moveTo(x(m.from) - 4, 0); c.lineTo(x(m.from) + 4, 0); c.lineTo(x(m.from), 6);
      c.fill();
    } else {
      c.fillRect(x(m.from), 8, w, 2);
    }
  }
  c.fillStyle = p.wrong;
  for (const t of o.turns) {
    if (t.kind !== "violation") continue;
    c.beginPath();
    c.moveTo(x(t.at) - 5, height); c.lineTo(x(t.at) + 5, height); c.lineTo(x(t.at), 34);
    c.fill();
  }
  if (!o.over) { // what has not grown yet
    c.fillStyle = p.edge;
    c.fillRect(x(o.at), 22, width - x(o.at), 1);
  }
}

const whole = computed(() => ({from: 0, until: end.value}));

export function Timeline() {
  const canvas = useRef();
  useDrawing(canvas, draw);
  const moved = e => {
    if (playing.value) stop();
    go({time: Math.floor(Math.min(Number(e.target.value), overview.value?.at ?? 0))});
  };
  return html`
    <div class="timeline">
      <canvas ref=${canvas} aria-hidden="true"></canvas>
      <${Needle} range=${whole} at=${time} />
      <input type="range" min="0" max=${end.value} step=${Math.max(1, Math.floor(end.value / 1000))} value=${time.value}
        aria-label="Moment of the run" aria-valuetext=${clock(time.value, 3)} onInput=${moved} />
    </div>`;
}
