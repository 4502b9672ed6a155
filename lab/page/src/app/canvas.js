// What the drawings on a canvas share.
import {effect, useEffect} from "./html.js";

const widths = new WeakMap(); // of canvases: to ask for one makes the browser lay out the page, in the middle of a frame

// fitted makes a canvas as sharp as the screen, and clears it.
export function fitted(canvas, height) {
  const ratio = devicePixelRatio || 1, width = widths.get(canvas) ?? canvas.clientWidth;
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + "px";
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return {c, width};
}

// hatch fills a rectangle with slanted lines.
export function hatch(c, x, y, w, h, colour, gap = 4) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.beginPath();
  const from = Math.floor((x - h) / gap) * gap;
  for (let i = from; i < x + w; i += gap) {
    c.moveTo(i, y + h);
    c.lineTo(i + h, y);
  }
  c.stroke();
  c.restore();
}

// useDrawing draws a canvas anew when a signal that draw reads has changed, and when its size or the colours have.
export function useDrawing(canvas, draw) {
  useEffect(() => {
    const element = canvas.current, again = () => draw(element);
    const end = effect(again);
    const size = new ResizeObserver(() => {
      widths.set(element, element.clientWidth);
      again();
    });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    size.observe(element);
    scheme.addEventListener("change", again);
    return () => {
      end();
      size.disconnect();
      scheme.removeEventListener("change", again);
    };
  }, []);
}
