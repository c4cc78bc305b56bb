import { EspalierError } from "@espalier/jsonl-stream";

/** Limits of a queue while writing fails. */
export interface QueueLimits {
  /** Entries. Default 1,000. */
  entries: number;
  /** Bytes of their JSON text, about. Default 64 MiB. */
  bytes: number;
}

/** Default limits; reaching either is `queue-full`. */
export const QUEUE_LIMITS: QueueLimits = { entries: 1_000, bytes: 64 * 1024 * 1024 };

/** One thing to write. */
interface WriteJob<Result> {
  write(): Promise<Result>;
  entries: number;
  /** Asked for only while writing fails. */
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

interface Waiting extends WriteJob<unknown> {
  bytes?: number;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/**
 * Writes one after the other, in the order in which they were asked for. When writing fails, what wants to be kept
 * stays at the front, nothing overtakes it, and it is tried again at the next write, at a flush, and after a pause.
 */
export class WriteQueue {
  readonly #events: QueueEvents;
  readonly #limits: QueueLimits;
  readonly #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #failure: EspalierError | undefined;
  #drained = 0;
  #pause = FIRST_PAUSE;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(events: QueueEvents, limits: Partial<QueueLimits> = {}) {
    this.#events = events;
    this.#limits = { ...QUEUE_LIMITS, ...limits };
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
  add<Result>(job: WriteJob<Result>): Promise<Result> {
    const promise = new Promise<Result>((resolve, reject) => {
      this.#waiting.push({ ...job, resolve: resolve as (result: unknown) => void, reject });
    });
    void this.#run();
    return promise;
  }

  /** Answers when nothing waits any more. Throws what keeps it from being written; it stays queued then. */
  async drain(): Promise<void> {
    await this.#run();
    if (this.#failure && this.#waiting.length > 0) throw this.#failure;
  }

  /** Tries once more; what still cannot be written is given up, and its promises say why. */
  async close(): Promise<void> {
    // What was added at the last moment has begun work of its own.
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
    // Not before `#running` is set, which the end of the work takes back.
    await undefined;
    clearTimeout(this.#timer);
    try {
      for (let job = this.#waiting[0]; job; job = this.#waiting[0]) {
        let result: unknown;
        try {
          result = await job.write();
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
        job.resolve(result);
        if (this.#failure) this.#goOn(job);
      }
    } finally {
      // In one step with the look that found nothing more: what is added from now on begins work of its own.
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
      else if (entries > this.#limits.entries || bytes > this.#limits.bytes) job.reject(queueFull(error));
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
