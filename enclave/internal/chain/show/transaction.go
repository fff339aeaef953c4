package show

// A Transaction has been read by its chain's package and can be shown.
type Transaction interface {
	// Kind is the kind that documents name, such as ETHEREUM_TRANSACTION.
	Kind() string
	// Show fills a part. An error is one that Known.Interface has answered, as it is.
	Show(v *View, o *Object) error
}
