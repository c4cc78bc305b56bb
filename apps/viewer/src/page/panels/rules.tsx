import type { ViewerActions } from "../app/address.ts";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { visibleControls } from "../text/visible-controls.ts";

/** The user's rules that hold at the selected entry; each leads to the message it is from. */
export function RulesPanel({ model, actions }: { model: SessionModel; actions: ViewerActions }) {
  const row = model.selected;
  const { answer, error } = useAnswer(() => model.reader.rules(row), [model, row]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  const show = async (id: string) => {
    const found = await model.reader.rowOf(id);
    if (found >= 0) actions.select(found);
  };
  return (
    <div class="panel">
      <h2>Rules that hold here</h2>
      <p class="quiet">
        {answer.length === 0
          ? "The user has said nothing on this path that binds what follows."
          : "Said by the user, and kept by every compaction. Choose one to see where it was said."}
      </p>
      {answer.length > 0 && (
        <ul class="rules">
          {answer.map(({ id, kind, text, from }) => (
            <li key={id}>
              <button type="button" class="link" onClick={() => void show(from.entryId)}>
                {visibleControls(text)}
              </button>{" "}
              <span class="quiet">{kind}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
