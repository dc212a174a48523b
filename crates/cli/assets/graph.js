(() => {
  const svg = document.getElementById("drawing");
  if (!svg) return;
  const nodes = JSON.parse(document.getElementById("nodes").textContent);
  const details = document.getElementById("details");
  const whole = svg.getAttribute("viewBox").split(" ").map(Number);
  let view = whole.slice();
  const show = () => svg.setAttribute("viewBox", view.join(" "));
  const boxes = [...svg.querySelectorAll(".boxes > g")];
  const edges = [...svg.querySelectorAll(".edges > path")];
  const MOST = 300; // lines of a configuration that are shown

  // ports and functions sit side by side: start where text can be read
  const first = () => {
    const r = svg.getBoundingClientRect();
    const w = Math.min(whole[2], Math.max(900, r.width * 1.2));
    view = [whole[0], whole[1], w, w * r.height / Math.max(r.width, 1)];
    show();
  };
  first();
  document.getElementById("fit").onclick = () => { view = whole.slice(); show(); };

  svg.addEventListener("wheel", (e) => {
    e.preventDefault();
    const r = svg.getBoundingClientRect();
    const k = Math.exp(e.deltaY * 0.0012);
    const fx = (e.clientX - r.left) / r.width, fy = (e.clientY - r.top) / r.height;
    view = [view[0] + view[2] * fx * (1 - k), view[1] + view[3] * fy * (1 - k), view[2] * k, view[3] * k];
    show();
  }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", (e) => { drag = [e.clientX, e.clientY, view[0], view[1]]; });
  addEventListener("pointermove", (e) => {
    if (!drag) return;
    const r = svg.getBoundingClientRect();
    const k = Math.max(view[2] / r.width, view[3] / r.height);
    view[0] = drag[2] - (e.clientX - drag[0]) * k;
    view[1] = drag[3] - (e.clientY - drag[1]) * k;
    show();
  });
  addEventListener("pointerup", () => { drag = null; });

  const el = (tag, text) => { const x = document.createElement(tag); x.textContent = text; return x; };
  const select = (i) => {
    boxes.forEach((b) => b.classList.toggle("sel", Number(b.dataset.i) === i));
    edges.forEach((p) => p.classList.toggle("on", Number(p.dataset.a) === i || Number(p.dataset.b) === i));
    const n = nodes[i];
    details.replaceChildren(el("h3", n.id), el("p", n.class));
    if (n.line) details.append(el("p", `declared at ${n.file}:${n.line}`));
    const lines = n.config.slice(0, MOST);
    if (n.config.length > MOST) lines.push(`... ${n.config.length - MOST} more`);
    if (lines.length) details.append(el("pre", lines.join("\n")));
  };
  boxes.forEach((b) => b.addEventListener("click", () => select(Number(b.dataset.i))));

  const find = document.getElementById("find");
  find.addEventListener("input", () => {
    const q = find.value.trim().toLowerCase();
    let hits = 0, at = -1;
    boxes.forEach((b) => {
      const n = nodes[Number(b.dataset.i)];
      const hit = q !== "" && (`${n.id} ${n.class}`.toLowerCase().includes(q) || n.config.some((c) => c.toLowerCase().includes(q)));
      b.classList.toggle("hit", hit);
      if (hit && hits++ === 0) at = Number(b.dataset.i);
    });
    document.getElementById("found").textContent = q ? `${hits} found` : "";
    if (at >= 0) {
      const m = boxes[at].transform.baseVal[0].matrix;
      view[0] = m.e + 75 - view[2] / 2;
      view[1] = m.f + 18 - view[3] / 2;
      show();
    }
  });
})();
