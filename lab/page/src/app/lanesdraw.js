// How the lanes are drawn.
import {fitted, hatch} from "./canvas.js";
import {colour, letter, palette} from "./terms.js";
import {tick, ticks} from "./format.js";
import {unknown} from "./run.js";

export const left = 64; // where time begins
const top = 26; // for the marks of faults
const axis = 20;

// draw draws them. From above: marks of faults, a lane for each node, the lane of the resource, the time.
export function draw(canvas, {overview: o, range}) {
  const n = o?.nodes.length ?? 5;
  const row = n <= 7 ? 36 : 27, writes = unknown("writes", o) ? 0 : 30, height = top + n * row + writes + axis;
  const {c, width} = fitted(canvas, height);
  if (!o) return;
  const p = palette(), scale = (width - left) / (range.until - range.from);
  const x = t => left + (t - range.from) * scale;
  const box = (from, until) => { // what can be seen of a span
    const a = Math.max(x(from), left), b = Math.min(x(until), width);
    return b < left || a > width ? null : [a, Math.max(b - a, 1)];
  };
  c.textBaseline = "middle";
  grid(c, p, x, range, width, height);
  const lanes = top + n * row;
  for (let i = 0; i < n; i++) node(c, p, o, i, {y: top + i * row, row, box, width});
  for (const both of o.both) {
    const b = box(both.from, both.until);
    if (b) hatch(c, b[0], top, Math.max(b[1], 3), lanes - top, p.wrong, 6);
  }
  if (writes) resource(c, p, o, {y: lanes, height: writes, x, width});
  marks(c, p, o, {x, box, lanes, width});
  if (!o.over) {
    const b = box(o.at, range.until);
    c.globalAlpha = 0.6;
    if (b) { c.fillStyle = p.ground; c.fillRect(b[0], top, b[1], lanes - top + writes); }
    c.globalAlpha = 1;
  }
}

function grid(c, p, x, range, width, height) {
  const {all, step} = ticks(range.from, range.until, Math.max(2, Math.floor((width - left) / 90)));
  c.font = `11px ${p.font}`;
  for (const t of all) {
    c.fillStyle = p.edge;
    c.fillRect(Math.round(x(t)), top, 1, height - axis - top + 4);
    c.fillStyle = p.faint;
    c.textAlign = x(t) > width - 24 ? "right" : "center";
    c.fillText(tick(t, step), x(t), height - 7);
  }
  c.textAlign = "left";
}

// node draws what was with a node, and its three bars.
function node(c, p, o, place, {y, row, box, width}) {
  c.fillStyle = p.edge;
  c.fillRect(0, y, width, 1);
  c.fillStyle = p.text;
  c.font = `600 13px ${p.font}`;
  c.fillText(o.nodes[place], 0, y + row / 2);
  const lives = o.lives.filter(l => l.place === place);
  // Between its lives it is dead; before the first one, too, if that is known.
  let since = (o.trace?.source ?? "sim") === "sim" ? 0 : Infinity;
  const dead = (from, until) => {
    const b = until > from && box(from, until);
    if (!b) return;
    c.fillStyle = p.sunk;
    c.fillRect(b[0], y + 1, b[1], row - 1);
    c.fillStyle = p.faint;
    c.fillRect(b[0], y + row / 2, b[1], 1);
    c.font = `11px ${p.font}`;
    if (b[1] > 34) {
      c.fillStyle = p.sunk;
      c.fillRect(b[0] + 3, y + row / 2 - 6, 28, 12);
      c.fillStyle = p.faint;
      c.fillText("dead", b[0] + 5, y + row / 2 + 1);
    }
  };
  for (const l of lives) {
    dead(since, l.from);
    since = l.until || o.at;
    const b = l.frozen && box(l.from, since);
    if (b) {
      c.globalAlpha = 0.35;
      hatch(c, b[0], y + 1, b[1], row - 1, p.faint, 5);
      c.globalAlpha = 1;
    }
  }
  if (o.at > 0) dead(since, o.at);
  for (const lane of o.lanes) {
    if (lane.place === place) tenure(c, p, o, lane, {y: y + 4, height: row - 7, box});
  }
}

// tenure draws three bars: an outline, a light one, a full one; two where there are no leases. What truly was may not be
// known: nothing is in its place.
function tenure(c, p, o, lane, {y, height, box}) {
  const n = o.leases ? 3 : 2, h = Math.floor((height - n + 1) / n), step = h + 1;
  const name = letter(lane.token, o), believes = box(lane.believes.from, lane.believes.until);
  if (!believes) return;
  c.strokeStyle = c.fillStyle = p.terms[colour(lane.token, o)];
  c.lineWidth = 1.25;
  c.strokeRect(believes[0] + 0.5, y + 0.5, Math.max(believes[1] - 1, 1), h - 1);
  const fill = (spans, y) => {
    let widest = null;
    for (const s of spans) {
      const b = box(s.from, s.until);
      if (!b) continue;
      c.fillRect(b[0], y, b[1], h);
      if (!widest || b[1] > widest[1]) widest = b;
    }
    return widest;
  };
  if (o.leases) {
    c.globalAlpha = 0.5;
    fill(lane.proven, y + step);
    c.globalAlpha = 1;
  }
  const [x, w] = fill(lane.true ?? [], y + (n - 1) * step) ?? believes;
  if (w <= 18) return;
  c.font = `700 11px ${p.font}`;
  const long = c.measureText(name).width, middle = y + (lane.true ? height : height - step) / 2;
  c.fillStyle = p.panel;
  c.fillRect(x + 3, middle - 8, long + 6, 16);
  c.fillStyle = p.text;
  c.fillText(name, x + 6, middle + 0.5);
}

// resource draws the writes. Accepted ones that are close become one line.
function resource(c, p, o, {y, height, x, width}) {
  c.fillStyle = p.edge;
  c.fillRect(0, y, width, 1);
  c.fillStyle = p.text;
  c.font = `600 13px ${p.font}`;
  c.fillText("Writes", 0, y + height / 2);
  let last = -10, named = -100, token = -1;
  for (const w of o.writes) {
    const at = x(w.at);
    if (at < left - 4 || at > width + 4) continue;
    if (w.ok && !w.stale) {
      if (at - last < 1.5) continue;
      last = at;
      c.fillStyle = p.terms[colour(w.token, o)];
      c.fillRect(at - 0.5, y + 5, 1.5, height - 18);
    } else if (w.ok) {
      c.fillStyle = p.wrong;
      c.beginPath();
      c.moveTo(at - 5, y + 15); c.lineTo(at + 5, y + 15); c.lineTo(at, y + 4);
      c.fill();
    } else {
      c.strokeStyle = w.stale ? p.text : p.faint;
      c.lineWidth = 1.75;
      c.beginPath();
      c.moveTo(at - 4, y + 5); c.lineTo(at + 4, y + 13); c.moveTo(at + 4, y + 5); c.lineTo(at - 4, y + 13);
      c.stroke();
    }
    if (w.token !== token && at - named > 30) {
      token = w.token;
      named = at;
      c.fillStyle = p.faint;
      c.font = `11px ${p.font}`;
      c.fillText(`#${w.token}`, Math.max(at, left), y + height - 6);
    }
  }
}

// marks draws faults above the lanes: a bar while it goes on, and its kind where there is room.
function marks(c, p, o, {x, box, lanes, width}) {
  c.font = `11px ${p.font}`;
  let free = 0;
  for (const m of o.marks) {
    const b = box(m.from, m.until || o.at);
    if (!b) continue;
    c.fillStyle = m.hand >= 0 ? p.accent : p.faint;
    c.fillRect(b[0], top - 6, Math.max(b[1], 3), 4);
    if (x(m.from) >= left) c.fillRect(x(m.from), top - 2, 1, lanes - top + 2);
    const text = m.says.split(" for ")[0], w = c.measureText(text).width;
    if (b[0] > free && b[0] + w < width) {
      c.fillText(text, b[0], 9);
      free = b[0] + w + 8;
    }
  }
  for (const t of o.turns) {
    if (t.kind !== "violation" || x(t.at) < left || x(t.at) > width) continue;
    c.fillStyle = p.wrong;
    c.font = `700 13px ${p.font}`;
    c.fillText("✗", x(t.at) - 4, top - 4);
  }
}
