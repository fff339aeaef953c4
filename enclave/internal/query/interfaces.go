package query

import "cloister/enclave/internal/org"

var interfaces = []*Query{
	stateQuery("get_smart_contract_interface", getInterface),
	stateQuery("list_smart_contract_interfaces", listInterfaces),
	stateQuery("list_known_tokens", listKnownTokens),
}

type interfaceRequest struct {
	Head
	SmartContractInterfaceID string `json:"smartContractInterfaceId" rule:"required"`
}

func getInterface(v *View, in *interfaceRequest) ([]byte, error) {
	i, err := findNamed("smart contract interface", "smartContractInterfaceId", in.SmartContractInterfaceID, v.Interface)
	if err != nil {
		return nil, err
	}
	dst, err := appendInterface([]byte(`{"smartContractInterface":`), v, i)
	return append(dst, '}'), err
}

func listInterfaces(v *View, _ *organizationRequest) ([]byte, error) {
	is, err := interfacesInOrder(v)
	if err != nil {
		return nil, err
	}
	dst := []byte(`{"smartContractInterfaces":[`)
	for n, i := range is {
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendInterface(dst, v, i); err != nil {
			return nil, err
		}
		if len(dst) > maxAnswer { // before more texts are loaded
			return nil, tooLarge()
		}
	}
	return append(dst, `]}`...), nil
}

func interfacesInOrder(v *View) ([]*org.Interface, error) {
	return inOrder(v.EachInterface, func(i *org.Interface) created { return created{i.CreatedMs, i.ID} })
}

// listKnownTokens answers the operator's list of tokens, in the text by whose SHA-256 documents for approvers name it. The query is
// our own.
func listKnownTokens(v *View, _ *organizationRequest) ([]byte, error) {
	list := v.Tokens.Text()
	if list == nil {
		list = []byte("[]")
	}
	return append(append([]byte(`{"tokens":`), list...), '}'), nil
}

func appendInterface(dst []byte, v *View, i *org.Interface) ([]byte, error) {
	source, err := v.InterfaceText(i)
	if err != nil {
		return nil, err
	}
	dst = ident(dst, `{"organizationId":`, v.ID)
	dst = ident(dst, `,"smartContractInterfaceId":`, i.ID)
	dst = text(dst, `,"smartContractAddress":`, i.Address)
	dst = text(dst, `,"smartContractInterface":`, source)
	dst = text(dst, `,"type":`, i.Type)
	dst = text(dst, `,"label":`, i.Label)
	dst = text(dst, `,"notes":`, i.Notes)
	if !i.MadeBy.Zero() {
		dst = ident(dst, `,"createdBy":`, i.MadeBy) // ours
	}
	return append(appendTimes(dst, i.CreatedMs, i.UpdatedMs), '}'), nil
}
