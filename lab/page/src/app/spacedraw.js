// How the space-time diagram is drawn.
import {fitted} from "./canvas.js";
import {colour, letter, palette} from "./terms.js";
import {tick, ticks} from "./format.js";

const left = 64, top = 18, axis = 22;
const views = new WeakMap(); // by canvas: what was drawn last, to find what is clicked

export function draw(canvas, {overview: o, part, letters, cone, line}) {
  const rows = o ? o.nodes.length + (o.store ? 1 : 0) : 5, row = rows <= 8 ? 44 : 30, height = top + rows * row + axis;
  const {c, width} = fitted(canvas, height);
  if (!o) return;
  const p = palette(), scale = (width - left) / (part.until - part.from);
  const x = t => left + (t - part.from) * scale, y = place => top + (place < 0 ? o.nodes.length : place) * row + row / 2;
  views.set(canvas, {part, letters, x, y, width});
  c.textBaseline = "middle";
  c.font = `11px ${p.font}`;
  const {all, step} = ticks(part.from, part.until, Math.max(2, Math.floor((width - left) / 110)));
  for (const t of all) {
    if (t < 0) continue;
    c.fillStyle = p.edge;
    c.fillRect(Math.round(x(t)), top, 1, height - top - axis + 4);
    c.fillStyle = p.faint;
    c.textAlign = x(t) > width - 40 ? "right" : "center";
    c.fillText(tick(t, step), x(t), height - 8);
  }
  c.textAlign = "left";
  c.save();
  c.beginPath();
  c.rect(left, 0, width - left, height);
  c.clip();
  for (let i = 0; i < o.nodes.length; i++) life(c, p, o, i, x, y(i), part);
  if (o.store) {
    c.fillStyle = p.faint;
    c.fillRect(left, y(-1), width - left, 1);
  }
  messages(c, p, letters, {cone, line, x, y, part});
  for (const t of o.turns) {
    const place = o.nodes.indexOf(t.node);
    if (t.at < part.from || t.at > part.until || place < 0) continue;
    c.fillStyle = t.kind === "violation" ? p.wrong : p.text;
    c.beginPath();
    c.arc(x(t.at), y(place), 3.5, 0, 7);
    c.fill();
  }
  c.restore();
  c.fillStyle = p.text;
  c.fillRect(x(part.t) - 1, top - 4, 2, height - top - axis + 6);
  c.font = `600 13px ${p.font}`;
  for (let i = 0; i < o.nodes.length; i++) c.fillText(o.nodes[i], 0, y(i));
  if (o.store) c.fillText("store", 0, y(-1));
}

// life draws the line of a participant: thick and in the term's colour while it believes that it leads, dotted while it
// is frozen, none while it is dead.
function life(c, p, o, place, x, y, part) {
  for (const l of o.lives) {
    const until = l.until || o.at;
    if (l.place !== place || until < part.from || l.from > part.until) continue;
    c.strokeStyle = p.faint;
    c.lineWidth = 1;
    c.setLineDash(l.frozen ? [2, 4] : []);
    c.beginPath();
    c.moveTo(x(Math.max(l.from, part.from)), y);
    c.lineTo(x(Math.min(until, part.until)), y);
    c.stroke();
    c.setLineDash([]);
  }
  for (const l of o.lanes) {
    const {from, until} = l.believes;
    if (l.place !== place || until < part.from || from > part.until) continue;
    const a = x(Math.max(from, part.from)), b = x(Math.min(until, part.until));
    c.fillStyle = p.terms[colour(l.token, o)];
    c.fillRect(a, y - 3, b - a, 6);
    c.font = `700 11px ${p.font}`;
    c.fillStyle = p.text;
    c.fillText(letter(l.token, o), a + 4, y - 10);
  }
}

function messages(c, p, letters, {cone, line, x, y, part}) {
  const within = n => n === line || cone.past.has(n) || cone.future.has(n);
  const shown = letters.filter(l => l.sent <= part.until && (l.arrived || l.sent + 2e6) >= part.from);
  const named = shown.filter(l => !l.routine).length <= 60, names = [];
  for (const l of shown) {
    const inside = line > 0 && within(l.sender) && (!l.receiver || within(l.receiver));
    c.globalAlpha = line > 0 && !inside ? 0.25 : l.routine ? 0.5 : 1;
    c.strokeStyle = c.fillStyle = l.lost ? p.wrong : l.routine ? p.faint : p.accent;
    c.lineWidth = inside ? 2.25 : 1.25;
    const a = {x: x(l.sent), y: y(l.from)}, arrived = l.arrived || l.sent + 2e6;
    if (l.to < 0) { // there and back
      const m = {x: x((l.sent + arrived) / 2), y: y(-1)}, b = {x: x(arrived), y: y(l.from)};
      arrow(c, a, m, false, !l.arrived);
      arrow(c, m, b, l.lost, !l.arrived);
    } else {
      arrow(c, a, {x: x(arrived), y: y(l.to)}, l.lost, !l.arrived);
    }
    if (named && !l.routine) label(c, p, l, a, {x: x(l.to < 0 ? (l.sent + arrived) / 2 : arrived), y: y(l.to)}, names);
  }
  c.globalAlpha = 1;
}

// arrow is a message; one that is lost ends half-way with a cross, one of which nothing is known is dotted.
function arrow(c, a, b, lost, unknown) {
  if (lost) b = {x: a.x + (b.x - a.x) * 0.6, y: a.y + (b.y - a.y) * 0.6};
  c.setLineDash(unknown ? [3, 4] : []);
  c.beginPath();
  c.moveTo(a.x, a.y);
  c.lineTo(b.x, b.y);
  c.stroke();
  c.setLineDash([]);
  c.beginPath();
  if (lost) {
    c.moveTo(b.x - 4, b.y - 4); c.lineTo(b.x + 4, b.y + 4); c.moveTo(b.x + 4, b.y - 4); c.lineTo(b.x - 4, b.y + 4);
    return c.stroke();
  }
  const d = Math.hypot(b.x - a.x, b.y - a.y) || 1, ux = (b.x - a.x) / d, uy = (b.y - a.y) / d;
  c.moveTo(b.x, b.y);
  c.lineTo(b.x - 7 * ux + 3 * uy, b.y - 7 * uy - 3 * ux);
  c.lineTo(b.x - 7 * ux - 3 * uy, b.y - 7 * uy + 3 * ux);
  c.fill();
}

// label writes the name of a message along its arrow, if it is long enough, and no name is there.
function label(c, p, l, a, b, names) {
  const text = l.type;
  c.font = `10.5px ${p.font}`;
  const w = c.measureText(text).width, d = Math.hypot(b.x - a.x, b.y - a.y);
  if (d < w + 24 || b.x - a.x < 20) return;
  const x = (a.x + b.x) / 2, y = (a.y + b.y) / 2;
  if (names.some(n => Math.abs(n.x - x) < w * 0.6 && Math.abs(n.y - y) < Math.max(16, w * 0.7))) return;
  names.push({x, y});
  c.save();
  c.translate(x, y);
  c.rotate(Math.atan2(b.y - a.y, b.x - a.x));
  c.textAlign = "center";
  c.lineWidth = 3;
  c.strokeStyle = p.panel;
  c.strokeText(text, 0, -5);
  c.fillStyle = p.text;
  c.fillText(text, 0, -5);
  c.restore();
}

// nearest is the message that is drawn near a point, and the time there.
export function nearest(canvas, px, py) {
  const {part, letters, x, y, width} = views.get(canvas);
  const time = part.from + (px - left) / (width - left) * (part.until - part.from);
  let best = null, least = 7;
  for (const l of letters) {
    const b = l.arrived || l.sent + 2e6;
    const legs = l.to < 0
      ? [[l.sent, y(l.from), (l.sent + b) / 2, y(-1)], [(l.sent + b) / 2, y(-1), b, y(l.from)]]
      : [[l.sent, y(l.from), b, y(l.to)]];
    for (const [t1, y1, t2, y2] of legs) {
      const d = distance(px, py, x(t1), y1, x(t2), y2);
      if (d < least) { least = d; best = l; }
    }
  }
  return {letter: best, time};
}

function distance(px, py, x1, y1, x2, y2) {
  const dx = x2 - x1, dy = y2 - y1, f = Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(px - x1 - f * dx, py - y1 - f * dy);
}
