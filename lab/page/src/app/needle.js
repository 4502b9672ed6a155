// The line of a moment over a drawing: it moves, and the drawing need not be drawn anew.
import {html} from "./html.js";

// Needle follows the signal at, within the signal range; left is where the range begins, in pixels. It is moved by parts of
// its width, which takes no layout.
export function Needle({range, at, left = 0}) {
  const {from, until} = range.value, part = (at.value - from) / (until - from);
  const visibility = part < 0 || part > 1 ? "hidden" : "visible";
  return html`<div class="needle" style=${`left:${left}px;transform:translateX(${part * 100}%);visibility:${visibility}`}></div>`;
}
