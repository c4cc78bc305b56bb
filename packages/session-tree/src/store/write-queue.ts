import { EspalierError, jsonText } from "@espalier/jsonl-stream";

/** Runs pieces of work in the order of their calls, some at a time (default 1). A failure does not stop the others. */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(atOnce = 1) {
    this.#free = atOnce;
  }

  /** Runs `work` in its turn, and not during this call; returns its result, or throws its error. */
  async take<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#begin();
    await turn;
    try {
      return await work();
    } finally {
      this.#free++;
      this.#begin();
    }
  }

  #begin(): void {
    const next = this.#free > 0 ? this.#waiting.shift() : undefined;
    if (!next) return;
    this.#free--;
    next();
  }
}

/**
 * Limits of a queue while writing fails: entries, and approximate bytes of their JSON text. Exceeding either gives
 * `queue-full`.
 */
const LIMITS = { entries: 1_000, bytes: 64 * 1024 * 1024 };

interface WriteJob {
  write(): Promise<void>;
  /** Returns one value per entry: its line, once that is known, or its draft. Called only while writing fails. */
  content(): readonly unknown[];
  /**
   * True to keep the job when writing fails, and to write it when writing works again. False to reject its promise at
   * once.
   */
  keep: boolean;
}

/** Events of a queue. The functions must not throw, because no caller would get the error. */
interface QueueEvents {
  failed(error: EspalierError, queued: { entries: number; bytes: number }): void;
  /** Called for the first write that works again. `drained` counts the entries of the kept jobs that were written. */
  recovered(drained: number): void;
}

/** Failures that can pass: a full disk, a failed call. Other errors concern only one write, or are final. */
const PASSING: ReadonlySet<string> = new Set(["write-failed", "short-write", "unreadable"]);

/** Milliseconds until a failed write is retried. Doubled each time, up to {@link LONGEST_PAUSE}. */
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 10_000;

interface Waiting extends WriteJob {
  /** Content that was measured last, and its bytes. */
  measured?: { content: readonly unknown[]; bytes: number };
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Runs writes one after the other, in the order of their calls. When writing fails, the jobs to keep stay in order at
 * the front. They are retried at the next write, at a flush, and after a pause.
 */
export class WriteQueue {
  readonly #events: QueueEvents;
  readonly #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #failure: EspalierError | undefined;
  #drained = 0;
  #pause = FIRST_PAUSE;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(events: QueueEvents) {
    this.#events = events;
  }

  /** Entries and bytes of the jobs that wait because writing failed. */
  get queued(): { entries: number; bytes: number } {
    const queued = { entries: 0, bytes: 0 };
    if (!this.#failure) return queued;
    for (const job of this.#waiting) {
      const { entries, bytes } = sizeOf(job);
      queued.entries += entries;
      queued.bytes += bytes;
    }
    return queued;
  }

  /**
   * Adds a job. Resolves when the job was written.
   * @throws EspalierError the errors of `write`; `queue-full` when the job cannot be kept because the queue is full
   */
  add(job: WriteJob): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ ...job, resolve, reject });
    });
    void this.#run();
    return promise;
  }

  /** Retries kept jobs; resolves when none is left. Throws the error that prevents writing; the jobs stay queued then. */
  async drain(): Promise<void> {
    await this.#run();
    if (this.#failure && this.#waiting.length > 0) throw this.#failure;
  }

  /** Tries to write all jobs once more, and rejects those that still cannot be written with the last error. */
  async close(): Promise<void> {
    // A job that was added meanwhile starts its own run.
    do await this.#run();
    while (this.#running);
    clearTimeout(this.#timer);
    for (const job of this.#waiting.splice(0)) job.reject(this.#failure);
  }

  #run(): Promise<void> {
    this.#running ??= this.#work();
    return this.#running;
  }

  async #work(): Promise<void> {
    // The caller sets `#running` first; the end of this run clears it.
    await undefined;
    clearTimeout(this.#timer);
    try {
      for (let job = this.#waiting[0]; job; job = this.#waiting[0]) {
        try {
          await job.write();
        } catch (error) {
          if (error instanceof EspalierError && PASSING.has(error.code)) {
            this.#fail(error);
            if (this.#waiting.length > 0) return;
          } else {
            this.#waiting.shift();
            job.reject(error);
          }
          continue;
        }
        this.#waiting.shift();
        job.resolve();
        if (this.#failure) this.#goOn(job);
      }
    } finally {
      // Cleared in the same step as the last check of the queue, so that a job added afterwards starts its own run.
      this.#running = undefined;
    }
  }

  /** Rejects the jobs that are not kept, even after a kept one, because nothing may overtake it. */
  #fail(error: EspalierError): void {
    this.#failure = error;
    const kept = { entries: 0, bytes: 0 };
    for (const job of this.#waiting.splice(0)) {
      if (!job.keep) {
        job.reject(error);
        continue;
      }
      const { entries, bytes } = sizeOf(job);
      if (kept.entries + entries > LIMITS.entries || kept.bytes + bytes > LIMITS.bytes)
        job.reject(queueFull(error));
      else {
        kept.entries += entries;
        kept.bytes += bytes;
        this.#waiting.push(job);
      }
    }
    if (this.#waiting.length > 0) {
      this.#timer = setTimeout(() => void this.#run(), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    }
    this.#events.failed(error, kept);
  }

  /** Handles a successful write after a failure. Once no kept jobs remain, writing works again. */
  #goOn(job: Waiting): void {
    if (job.keep) this.#drained += job.content().length;
    if (this.#waiting.some(({ keep }) => keep)) return;
    const drained = this.#drained;
    this.#failure = undefined;
    this.#drained = 0;
    this.#pause = FIRST_PAUSE;
    this.#events.recovered(drained);
  }
}

function sizeOf(job: Waiting): { entries: number; bytes: number } {
  const content = job.content();
  if (job.measured?.content !== content) job.measured = { content, bytes: textLength(content) };
  return { entries: content.length, bytes: job.measured.bytes };
}

function textLength(content: readonly unknown[]): number {
  try {
    let length = 0;
    for (const each of content) length += typeof each === "string" ? each.length : jsonText(each).length;
    return length;
  } catch {
    // A value that JSON cannot represent has no size. Its write fails later with its own error.
    return 0;
  }
}

const queueFull = (cause: EspalierError) =>
  new EspalierError(
    "queue-full",
    `The queue of unwritten entries is full (1,000 entries or 64 MiB), because writing fails: ${cause.message} Make the log writable again, then append.`,
    { cause },
  );
