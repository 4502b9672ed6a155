// What a recording adds to the page: its time goes on by film.tick alone, a pointer is drawn, and captions are.
(() => {
  const frame = requestAnimationFrame.bind(globalThis), clock = performance.now.bind(performance);
  const waiting = new Map();
  let rolling = false, now = 0, last = 0, pending = 0, changed = true;
  new MutationObserver(() => { changed = true; }).observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  globalThis.requestAnimationFrame = act => (rolling ? (waiting.set(--last, act), last) : frame(act));
  performance.now = () => (rolling ? now : clock());

  // settled waits until the machines have answered, and what they said has been drawn.
  const settled = async () => {
    do {
      while (pending) await new Promise(done => setTimeout(done));
      for (let i = 0; i < 3; i++) await new Promise(done => setTimeout(done));
    } while (pending);
  };
  const made = (kind, style) => {
    const element = document.createElement("div");
    Object.assign(element.style, {position: "fixed", zIndex: 1000, pointerEvents: "none"}, style);
    element.className = kind;
    document.documentElement.append(element);
    return element;
  };
  let pointer, ring, caption, x = 720, y = 700, way = null;
  const move = () => { pointer.style.transform = `translate(${x}px, ${y}px)`; };

  globalThis.film = {
    start() {
      now = clock();
      rolling = true;
      const call = elect.call;
      elect.call = (...all) => {
        pending++;
        return call(...all).finally(() => { pending--; });
      };
      caption = made("caption", {
        left: 0, right: 0, bottom: "20px", width: "fit-content", maxWidth: "1380px", margin: "0 auto", padding: "8px 26px", borderRadius: "12px",
        background: "rgb(12 16 24 / .9)", color: "#fff", font: "600 26px/1.3 system-ui, sans-serif", textAlign: "center", textWrap: "balance", visibility: "hidden",
      });
      ring = made("ring", {width: "44px", height: "44px", margin: "-22px", borderRadius: "50%", border: "4px solid #e8590c", opacity: 0});
      pointer = made("pointer", {left: 0, top: 0, width: "22px", height: "32px", background: "#e8590c", clipPath: "polygon(0 0, 0 78%, 26% 58%, 44% 100%, 62% 92%, 44% 52%, 80% 52%)", filter: "drop-shadow(0 0 2px #fff)"});
      move();
    },
    says(text) {
      caption.textContent = text;
      caption.style.visibility = text ? "visible" : "hidden";
    },
    // point has the pointer go to the middle of an element.
    point(element) {
      const box = element.getBoundingClientRect();
      way = {from: [x, y], to: [box.left + box.width / 2, box.top + box.height / 2], since: now};
    },
    click(element) {
      Object.assign(ring.style, {left: x + "px", top: y + "px", opacity: 1});
      element.click();
    },
    // tick lets time go by, and says whether something may look different.
    async tick(by) {
      now += by;
      if (way) {
        const f = Math.min(1, (now - way.since) / 700), eased = f * f * (3 - 2 * f);
        [x, y] = way.from.map((a, i) => a + (way.to[i] - a) * eased);
        move();
        if (f === 1) way = null;
      }
      if (ring.style.opacity > 0) ring.style.opacity = Math.max(0, ring.style.opacity - by / 500);
      const all = [...waiting.values()];
      waiting.clear();
      for (const act of all) act(now);
      await settled();
      const is = changed;
      changed = false;
      return is;
    },
  };
})();
