import { broken } from "./broken.ts";
import { calls } from "./calls.ts";
import { conversation } from "./conversation.ts";
import { cut } from "./cut.ts";
import { flip } from "./flip.ts";
import { fuzz } from "./fuzz.ts";
import type { Harness } from "./harness.ts";
import { kill } from "./kill.ts";
import { lease } from "./lease.ts";
import { lives } from "./lives.ts";
import { outage } from "./outage.ts";
import { postgres } from "./postgres.ts";
import { power } from "./power.ts";
import { room } from "./room.ts";
import { schedule } from "./schedule.ts";
import { share } from "./share.ts";

/** Every trial, by the name the command line knows it by. */
export const harnesses: Record<string, Harness> = {
  kill,
  conversation,
  cut,
  flip,
  share,
  lease,
  room,
  power,
  outage,
  calls,
  lives,
  schedule,
  broken,
  fuzz,
  postgres,
};
