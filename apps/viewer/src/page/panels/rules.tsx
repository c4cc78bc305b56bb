import type { ViewerActions } from "../app/address.ts";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { visibleControls } from "../text/visible-controls.ts";

/** Panel of the user's rules that apply at the selected entry; each links to its message. */
export function RulesPanel({ model, actions }: { model: SessionModel; actions: ViewerActions }) {
  const row = model.selected;
  const { answer, error } = useAnswer(() => model.reader.rules(row), [model, row]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  const show = async (id: string) => {
    const found = await model.reader.rowOf(id);
    if (found >= 0) actions.open("conversation", found);
  };
  return (
    <div class="panel">
      <h2>Rules that apply here</h2>
      <p class="quiet">
        {answer.length === 0
          ? "The user has set no rule on this path."
          : "Instructions of the user, kept by every compaction. Select one to see its message."}
      </p>
      {answer.length > 0 && (
        <ul class="rules">
          {answer.map(({ id, kind, text, from }) => (
            <li key={id}>
              <button type="button" class="link" onClick={() => void show(from.entryId)}>
                {visibleControls(text)}
              </button>{" "}
              <span class="rule-kind">{kind}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
