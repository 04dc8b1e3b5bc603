"""Scene models: classes, tags and explanations of photographs."""
