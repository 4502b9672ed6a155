// Messages on their way. A request to the store goes there, and its answer comes back.
import {html, names} from "./html.js";
import {still} from "./moment.js";

const unknown = 2e6; // how long a message is drawn of which it is not known when it arrives

// Flying draws those of a state as they are at time t, between the participants that are at these places.
export function Flying({s, t, at, small}) {
  const told = !small && s.flying.filter(l => !l.routine).length <= 14; // else their names would cover each other
  return html`<g class="letters" aria-hidden="true">${s.flying.map(l => html`
    <${Letter} key=${l.number} letter=${l} t=${t} at=${at} named=${told && !l.routine} />`)}</g>`;
}

function Letter({letter: l, t, at, named}) {
  const f = Math.max(0, Math.min(1, (t - l.sent) / ((l.arrived || l.sent + unknown) - l.sent || 1)));
  const back = l.to < 0 && f > 0.5;
  const from = at.spot(back ? l.to : l.from), to = at.spot(back ? l.from : l.to);
  const part = l.to < 0 ? (back ? 2 * f - 1 : 2 * f) : f;
  // From rim to rim, and a little to the side, so that the two directions are two lines.
  const dx = to.x - from.x, dy = to.y - from.y, d = Math.hypot(dx, dy) || 1, r = at.r;
  const along = (r + (d - 2 * r) * (still.value ? 0.5 : part)) / d;
  const x = from.x + dx * along - dy / d * 4, y = from.y + dy * along + dx / d * 4;
  const kind = names("letter", l.routine && "routine", l.lost && "lost");
  if (still.value) {
    const a = {x: from.x + dx * r / d - dy / d * 4, y: from.y + dy * r / d + dx / d * 4};
    const b = {x: to.x - dx * r / d - dy / d * 4, y: to.y - dy * r / d + dx / d * 4};
    return html`<g class=${kind}><path d=${`M${a.x} ${a.y}L${b.x} ${b.y}`} marker-end="url(#tip)" />${named && html`<text x=${x} y=${y - 5}>${l.type}</text>`}</g>`;
  }
  return html`<g class=${kind} transform=${`translate(${x.toFixed(1)} ${y.toFixed(1)})`}>
    ${l.lost ? html`<path d="M-4 -4L4 4M4 -4L-4 4" />` : html`<circle r=${l.routine ? 3 : 5} />`}
    ${named && html`<text y="-9">${l.type}</text>`}
  </g>`;
}
