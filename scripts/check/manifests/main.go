// Loads a Compose file like Compose: validates the schema, interpolates variables, reads referenced files and checks consistency.
// Prints the environment of each service as JSON.
//
//	manifests <file>
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func load(path string) (map[string]types.MappingWithEquals, error) {
	options, err := cli.NewProjectOptions([]string{path})
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	environments := map[string]types.MappingWithEquals{}
	for name, service := range project.Services {
		environments[name] = service.Environment
	}
	return environments, nil
}

func main() {
	environments, err := load(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(environments)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
