"""The admission webhook: marks pods for colocation as ClusterColocationProfiles say, when they are created."""
