import { EspalierError } from "@espalier/jsonl-stream";

/** Limits of a queue while writing fails: entries, and bytes of their JSON text, about. Reaching either is `queue-full`. */
const LIMITS = { entries: 1_000, bytes: 64 * 1024 * 1024 };

interface WriteJob {
  write(): Promise<void>;
  entries: number;
  /** Called only while writing fails. */
  measureBytes(): number;
  /** True to keep it when writing fails, and to write it when that works again; else its promise is rejected at once. */
  keep: boolean;
}

/** Events of a queue besides its promises. Neither may throw: the queue has no caller for the error. */
interface QueueEvents {
  failed(error: EspalierError, queued: { entries: number; bytes: number }): void;
  /** The first write that worked again; `drained` counts the kept entries that it and those behind it wrote. */
  recovered(drained: number): void;
}

/** Failures that may pass: a full disk, a call that failed. Any other concerns one write, or is final. */
const PASSING: ReadonlySet<string> = new Set(["write-failed", "short-write", "unreadable"]);

/** Milliseconds until a failed write is tried again by itself: doubled each time, up to the longest. */
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 10_000;

interface Waiting extends WriteJob {
  bytes?: number;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Runs writes one after the other, in the order of their calls. When writing fails, jobs to keep stay at the front,
 * nothing overtakes them, and they are tried again at the next write, at a flush, and after a pause.
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

  /** Jobs that wait because writing failed. */
  get queued(): { entries: number; bytes: number } {
    const queued = { entries: 0, bytes: 0 };
    if (!this.#failure) return queued;
    for (const job of this.#waiting) {
      queued.entries += job.entries;
      queued.bytes += sizeOf(job);
    }
    return queued;
  }

  /** @throws EspalierError what `write` throws; `queue-full` when it would have to be kept and there is no room */
  add(job: WriteJob): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ ...job, resolve, reject });
    });
    void this.#run();
    return promise;
  }

  /** Resolves when nothing waits. Throws the error that keeps it from being written; it stays queued then. */
  async drain(): Promise<void> {
    await this.#run();
    if (this.#failure && this.#waiting.length > 0) throw this.#failure;
  }

  /** Tries once more, and rejects what still cannot be written. */
  async close(): Promise<void> {
    // A job that was added at the last moment has begun work of its own.
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
    // `#running` is set first; the end of the work clears it.
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
      // In one step with the last look at the queue: a job that is added now begins work of its own.
      this.#running = undefined;
    }
  }

  /** Rejects the jobs that are not kept, also behind a kept one, since nothing may overtake it. */
  #fail(error: EspalierError): void {
    this.#failure = error;
    const kept = { entries: 0, bytes: 0 };
    for (const job of this.#waiting.splice(0)) {
      const entries = kept.entries + job.entries;
      const bytes = kept.bytes + (job.keep ? sizeOf(job) : 0);
      if (!job.keep) job.reject(error);
      else if (entries > LIMITS.entries || bytes > LIMITS.bytes) job.reject(queueFull(error));
      else {
        kept.entries = entries;
        kept.bytes = bytes;
        this.#waiting.push(job);
      }
    }
    if (this.#waiting.length > 0) {
      this.#timer = setTimeout(() => void this.#run(), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    }
    this.#events.failed(error, kept);
  }

  /** Behind a failure, a job was written: when it was the last of the kept ones, writing works again. */
  #goOn(job: Waiting): void {
    if (job.keep) this.#drained += job.entries;
    if (this.#waiting.some(({ keep }) => keep)) return;
    const drained = this.#drained;
    this.#failure = undefined;
    this.#drained = 0;
    this.#pause = FIRST_PAUSE;
    this.#events.recovered(drained);
  }
}

function sizeOf(job: Waiting): number {
  job.bytes ??= measured(job);
  return job.bytes;
}

function measured(job: Waiting): number {
  try {
    return job.measureBytes();
  } catch {
    // What is no JSON cannot be measured, and is refused by name when its turn comes.
    return 0;
  }
}

const queueFull = (cause: EspalierError) =>
  new EspalierError(
    "queue-full",
    "Writing fails, and no more entries can be kept for later; make writing possible again, then append.",
    { cause },
  );
