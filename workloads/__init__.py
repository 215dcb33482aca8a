"""What is trained: jobs, nets and their arithmetic, and the trainer that runs in the container."""
