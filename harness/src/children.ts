import { act } from "./children/acting.ts";
import { append } from "./children/appending.ts";
import { converseUntilKilled } from "./children/conversing.ts";
import { fillUp } from "./children/filling.ts";
import { share } from "./children/sharing.ts";
import { take } from "./children/taking.ts";

/** What the program does when a trial starts it as a child, by the name it is given. */
export const children: Record<string, (args: string[]) => Promise<void>> = {
  acting: act,
  appending: append,
  conversing: converseUntilKilled,
  filling: fillUp,
  sharing: share,
  taking: take,
};
