/** One after the other: each piece of work begins when the one before has ended, however it ended. */
export class TurnTaking {
  #last: Promise<unknown> = Promise.resolve();

  take<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work);
    // Whoever asked for the work hears of its failure; the next one only waits for its end.
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
