/* Every button and button-like link of the page with the lowest contrast of its words or icon, and what it should be.
 *
 * By WCAG 2.2: 4.5 for text, 3 for large text (24 px, or 18.66 px and bold) and for what is an icon only. What is
 * disabled is exempt. Colours are read by painting them, so that every notation of CSS is understood.
 */
(selector) => {
  const still = new CSSStyleSheet(); // colours on their way are none
  still.replaceSync("*, *::before, *::after { transition: none !important; animation: none !important; }");
  document.adoptedStyleSheets = [still];
  const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const painted = new Map();
  const paint = (colour) => {
    if (!painted.has(colour)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
      painted.set(colour, [red, green, blue, alpha / 255]);
    }
    return painted.get(colour);
  };
  const lay = (above, below) => {
    const alpha = above[3] + below[3] * (1 - above[3]);
    const mix = (i) => (alpha ? (above[i] * above[3] + below[i] * below[3] * (1 - above[3])) / alpha : 0);
    return [mix(0), mix(1), mix(2), alpha];
  };
  const fade = (colour, opacity) => [...colour.slice(0, 3), colour[3] * opacity];
  const chain = (element) => {
    const all = [];
    for (let at = element; at; at = at.parentElement) all.push(getComputedStyle(at));
    return all;
  };
  // From the page outwards to the element: each layer stands on those before it.
  const ground = (styles) => styles.reduceRight(
    (below, style) => lay(fade(paint(style.backgroundColor), Number(style.opacity)), below), paint("Canvas"));
  const shine = (colour) => {
    const part = (value) => ((value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2]);
  };
  const contrast = (element) => {
    const styles = chain(element), behind = ground(styles);
    const opacity = styles.reduce((all, style) => all * Number(style.opacity), 1);
    const [low, high] = [shine(behind), shine(lay(fade(paint(styles[0].color), opacity), behind))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const isLarge = ({ fontSize, fontWeight }) =>
    parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700);
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && element.getClientRects().length > 0 && !element.closest(".only-read");
  const wordsOf = (element) => {
    const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
      const parent = walk.currentNode.parentElement;
      if (walk.currentNode.data.trim() && isSeen(parent)) found.push(parent);
    }
    return found;
  };
  const measure = (element) => {
    const words = wordsOf(element);
    const parts = words.length ? words : [...element.querySelectorAll("svg")].filter(isSeen);
    const measured = parts.map((part) => {
      const least = words.length && !isLarge(getComputedStyle(part)) ? 4.5 : 3;
      return { ratio: contrast(part), least };
    });
    measured.sort((a, b) => a.ratio / a.least - b.ratio / b.least);
    const name = (element.innerText.trim() || element.getAttribute("aria-label") || "").replace(/\s+/g, " ");
    return { what: `${element.tagName.toLowerCase()}.${element.className} ${name}`.slice(0, 120), ...measured[0] };
  };
  return [...document.querySelectorAll(selector)]
    .filter((element) => isSeen(element) && !element.closest(":disabled, [aria-disabled=true]"))
    .map(measure).filter((found) => found.ratio !== undefined);
}
