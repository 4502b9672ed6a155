package group

import (
	"os"
	"testing"

	"github.com/electd/elect/internal/race"
)

func TestMain(m *testing.M) { os.Exit(race.Main(m)) }
