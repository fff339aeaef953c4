package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

var tags = []*Query{
	stateQuery("list_user_tags", listUserTags),
	stateQuery("list_private_key_tags", listPrivateKeyTags),
}

func listUserTags(v *View, _ *OrganizationRequest) ([]byte, error) {
	return tagsOf(v, `{"userTags":`, "TAG_TYPE_USER")
}

func listPrivateKeyTags(v *View, _ *OrganizationRequest) ([]byte, error) {
	return tagsOf(v, `{"privateKeyTags":`, "TAG_TYPE_PRIVATE_KEY")
}

// tagsOf writes all tags of one type, in order of creation.
func tagsOf(v *View, key, typ string) ([]byte, error) {
	var ts []*org.Tag
	err := v.EachTag(func(t *org.Tag) bool {
		if t.Type == typ {
			ts = append(ts, t)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ts, func(a, b *org.Tag) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return append(array(nil, key, ts, activity.AppendTag), '}'), nil
}
