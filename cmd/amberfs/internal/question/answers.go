package question

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// askWord asks until the answer is one of words, or the beginning of one ("discard" must be complete), and
// returns the word. For the answer "diff" it shows the changes of groups and asks again. For other answers
// it prints the help. If "q" is one of the words, an answer "/TEXT" is returned as it is.
func (q *Question) askWord(ctx context.Context, prompt string, words []string, help string, groups ...group) (string, error) {
	for {
		answer, err := q.readLine(ctx, prompt)
		if err != nil {
			return "", err
		}

		i := slices.IndexFunc(words, func(w string) bool {
			return answer == w || answer != "" && w != "discard" && strings.HasPrefix(w, answer)
		})
		switch {
		case i < 0 && len(answer) > 1 && answer[0] == '/' && slices.Contains(words, "q"):
			return answer, nil
		case i < 0:
			fmt.Fprint(q.terminal.Out, help)
		case words[i] != "diff":
			return words[i], nil
		default:
			if err := q.showDiff(ctx, groups...); err != nil {
				return "", err
			}
		}
	}
}

// readLine prints a prompt, reads a line, and returns the line in lower case. At the end of the input it returns
// errNothingApplied.
func (q *Question) readLine(ctx context.Context, prompt string) (line string, err error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT)
	defer stop()

	fmt.Fprint(q.terminal.Out, q.paint(prompt, styles.Bold))
	lines := make(chan string)
	go func() {
		defer close(lines)
		if line, err := q.in.ReadString('\n'); line != "" || err == nil {
			lines <- line
		}
	}()

	select {
	case line, ok := <-lines:
		if ok {
			return strings.ToLower(strings.TrimSpace(line)), nil
		}
		err = errNothingApplied

	case <-ctx.Done():
		err = errs.Fail(errs.Failed, "interrupted")
	}

	fmt.Fprintln(q.terminal.Out)

	return "", err
}

// askLetter asks for one of the letters in answers. "q" sets q.isEnded, and "/TEXT" sets q.searchText. Both count
// as "n".
func (q *Question) askLetter(ctx context.Context, prompt, answers string) (string, error) {
	letters, help := strings.Split(answers, ""), ""
	for _, l := range letters {
		help += l + " - " + answerHelp[l] + "\n"
	}

	help += "/TEXT - leave this, and go to what has TEXT in its name or its lines\n"
	answer, err := q.askWord(ctx, prompt+" ["+strings.Join(letters, ",")+",/,?]? ", letters, help)
	if text, ok := strings.CutPrefix(answer, "/"); ok {
		q.searchText, answer = text, "n"
	}
	if q.isEnded = answer == "q"; q.isEnded {
		answer = "n"
	}

	return answer, err
}

var answerHelp = map[string]string{
	"y": "apply this", "n": "leave this", "a": "apply this and the rest of the file", "d": "leave this and the rest of the file",
	"s": "go through what is in it", "q": "leave this and all that follows", "b": "go back to the question before",
	"e": "edit the text that is applied, in $EDITOR",
}

// showDiff shows the changes of groups in a pager.
func (q *Question) showDiff(ctx context.Context, groups ...group) error {
	var o diff.Options
	for _, g := range groups {
		for _, c := range g.changes {
			o.Paths = append(o.Paths, c.Path.String())
		}
	}

	hasOutput, err := q.terminal.Page(func(w io.Writer) error { return diff.Write(ctx, w, q.changes.Source, q.changes.Base, q.changes.Now, o) })
	if err != nil {
		return err
	}
	if !hasOutput {
		fmt.Fprintln(q.terminal.Out, "no differences outside of .git")
	}

	return nil
}

// resolve asks which version of a path in conflict to apply or, for a repository, what to do with each diverged
// branch. It records the choices.
func (q *Question) resolve(ctx context.Context, g group) error {
	if g.isGit {
		return q.resolveBranches(ctx, g)
	}
	words, choices := []string{"ours", "stop"}, map[string]hostdir.Choice{"ours": {Leave: true}, "theirs": {ConflictRule: threeway.TakeTheirs}, "merged": {Markers: true}}
	prompt := fmt.Sprintf("%s changed on both sides: [o]urs, of %s", g.printedName(), gitquote.ReadableName(q.ours))
	if !g.changes[0].Blocked {
		words, prompt = append(words, "theirs"), prompt+"  [t]heirs, of "+gitquote.ReadableName(q.theirs)
	}
	if g.changes[0].CanHaveMarkers {
		words, prompt = append(words, "merged"), prompt+"  [m]erged with markers"
	}

	if q.changes != nil {
		words, prompt = append(words, "diff"), prompt+"  [d]iff"
	}

	answer, err := q.askWord(ctx, prompt+"  [s]top: ", words, "", g)
	if answer == "stop" {
		return errNothingApplied
	}

	q.setChoice(g, choices[answer])

	return err
}
