import { testLine as line } from "@espalier/session-tree/testing";
import { openPostgresStore } from "@espalier/store-postgres";
import { Client } from "pg";

/** Appends one entry after the other while its connections are cut from the server's side. */
export class Acting {
  readonly asked: string[] = [];
  readonly acknowledged: string[] = [];
  readonly #url: string;
  readonly #namespace: string;
  readonly #ref: string;

  constructor(url: string, namespace: string, ref: string) {
    this.#url = url;
    this.#namespace = namespace;
    this.#ref = ref;
  }

  /** Goes on until so many connections were cut while a statement was under way or its answer was. */
  async killBackends(count: number): Promise<void> {
    const store = openPostgresStore(`${this.#url}?namespace=${this.#namespace}`);
    const log = await store.open({ file: this.#ref }, "write");
    const killer = new Client({ connectionString: this.#url });
    await killer.connect();
    let isOver = false;
    const appending = (async () => {
      for (let n = 0; !isOver; n++) {
        const id = `e${n}`;
        this.asked.push(id);
        await log.append([line(id, n === 0 ? null : `e${n - 1}`)]);
        this.acknowledged.push(id);
      }
    })();
    try {
      for (let killed = 0; killed < count; ) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
        const { rows } = await killer.query(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'espalier' AND query LIKE '%espalier.line%'",
        );
        killed += rows.length;
      }
    } finally {
      isOver = true;
      await appending;
      await killer.end();
      await store.close();
    }
  }
}
