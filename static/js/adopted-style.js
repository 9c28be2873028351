/* <adopted-style>: what a <style> written by a script would be, and our policy (style-src 'self') would refuse. Its text
 * becomes a constructed sheet, which the document adopts while the element is in it. For xterm: see EDITS in bin/vendor.
 */
class AdoptedStyle extends HTMLElement {
  sheet = new CSSStyleSheet();

  get textContent() {
    return [...this.sheet.cssRules].map((rule) => rule.cssText).join("\n");
  }

  set textContent(css) {
    this.sheet.replaceSync(css);
  }

  connectedCallback() {
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.sheet];
  }

  disconnectedCallback() {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== this.sheet);
  }
}

customElements.define("adopted-style", AdoptedStyle);
