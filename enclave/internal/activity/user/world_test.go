package user_test

import "cloister/enclave/internal/activity/activitytest"

type (
	object = activitytest.Object
	world  = activitytest.World
)
