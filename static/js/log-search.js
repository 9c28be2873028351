/* What was found in a log so far: numbers of lines, in order. It goes on in turns, as the server reads a part at a time.
 * ask(query) → promise of {lines, next, searched, size}. report() is called after each turn.
 */
const MOST = 10_000;

export class LogSearch {
  constructor(query, ask, report) {
    Object.assign(this, { query, ask, report, lines: [], known: new Set(), from: 0, searched: 0, size: 0, wanted: 0, busy: false, stopped: false });
  }

  get isDone() {
    return this.size > 0 && this.searched >= this.size;
  }

  get isFull() {
    return this.lines.length >= MOST;
  }

  /* Search until `more` further lines are known, or the log is at its end. */
  async goOn(more = MOST) {
    this.wanted = Math.min(this.lines.length + more, MOST);
    if (this.busy) return;
    this.busy = true;
    try {
      do {
        const { lines, next, searched, size } = await this.ask({ ...this.query, from: this.from });
        if (this.stopped) return;
        for (const line of lines) if (!this.known.has(line)) this.known.add(line) && this.lines.push(line);
        Object.assign(this, { from: next, searched, size });
        this.report();
      } while (this.searched < this.size && this.lines.length < this.wanted && !this.stopped);
    } finally {
      this.busy = false;
      this.report();
    }
  }

  stop() {
    this.stopped = true;
  }

  /* The nearest found line after (step 1) or before (step -1) this one, else round the end; undefined if there is none. */
  nearest(line, step) {
    const after = this.lines.findIndex((each) => each > line);
    if (step > 0) return this.lines[after < 0 ? 0 : after];
    const before = this.lines.findLastIndex((each) => each < line);
    return this.lines[before < 0 ? this.lines.length - 1 : before];
  }

  placeOf(line) {
    return this.lines.indexOf(line) + 1;
  }
}
